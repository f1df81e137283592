// From stored examples to the inputs of a batch: order, augmentation, normalization.

// A data set on the device.
struct Examples {
    const unsigned char* bytes;  // one of the two
    const float* floats;
    const int* labels;
    const float* offset;  // by channel: (value − offset)·factor
    const float* factor;
    int height, width, channels;
};

struct Draw {
    Examples from;
    float* inputs;
    i64 inputs_replica;
    int* labels;  // (replicas, batch)
    Replica* replicas;
    // Floats from one value to the next in the input plane, and to its first.
    int image, row, pixel, corner;
    u32 examples;
    int batch;
    int crop_padding;
    u32 flip;
    // Evaluation: examples from here on, the same for all replicas.
    int first;
    u32 rounds;  // to what products take
};

// A stored value as the network reads it.
__device__ __forceinline__ float normalized(const Draw& d, float value, int channel) {
    value = (value - __ldg(d.from.offset + channel)) * __ldg(d.from.factor + channel);
    return d.rounds ? rounded(value) : value;
}

__device__ __forceinline__ u32 mix(u32 word) {
    word = (word ^ word >> 16) * 0x85EBCA6Bu;
    word = (word ^ word >> 13) * 0xC2B2AE35u;
    return word ^ word >> 16;
}

#define ROUNDS 24

// The example at a place of an epoch's order: the host's `Permutation`.
__device__ u32 permuted(u32 at, u32 n, const u32* keys) {
    int bits = max(2, 32 - __clz(n > 0 ? n - 1 : 0));
    int low_bits = bits / 2;
    u32 low_mask = (1u << low_bits) - 1, high_mask = (1u << (bits - low_bits)) - 1;
    do {
        u32 high = at >> low_bits, low = at & low_mask;
#pragma unroll
        for (int round = 0; round < ROUNDS; round += 2) {
            high ^= mix(low ^ keys[round]) & high_mask;
            low ^= mix(high ^ keys[round + 1]) & low_mask;
        }
        at = high << low_bits | low;
    } while (at >= n);
    return at;
}

// The keys of an epoch's order.
__device__ __forceinline__ void draw_keys(u32* keys, u64 seed, u64 epoch, u32 part) {
    Words words = philox(seed, ORDER, epoch, part);
#pragma unroll
    for (int i = 0; i < 4; ++i) keys[4 * part + i] = words.w[i];
}

// How one image is changed; by default not at all.
struct Change {
    int up, left;
    bool mirrored;
};

// An image that lies in memory as it does in its plane, four bytes at a time.
__device__ __forceinline__ void put_bytes(const Draw& d, i64 index, float* to) {
    const int fours = d.from.height * d.from.width / 4;
    const u32* bytes = reinterpret_cast<const u32*>(d.from.bytes) + index * fours;
    for (int at = threadIdx.x; at < fours; at += blockDim.x) {
        const u32 four = __ldg(bytes + at);
        auto value = [&](int i) { return normalized(d, (float)(four >> 8 * i & 255), 0); };
        *reinterpret_cast<float4*>(to + 4 * at) = make_float4(value(0), value(1), value(2), value(3));
    }
}

__device__ void put_image(const Draw& d, i64 index, float* to, Change change) {
    const Examples& from = d.from;
    int values = from.height * from.width * from.channels;
    const bool changed = change.up || change.left || change.mirrored;
    const bool alike = from.channels == 1 && d.pixel == 1 && d.row == from.width && d.image == values;
    if (from.bytes && alike && values % 4 == 0 && !changed) return put_bytes(d, index, to);
    for (int at = threadIdx.x; at < values; at += blockDim.x) {
        int channel = at % from.channels, x = at / from.channels % from.width;
        int y = at / from.channels / from.width;
        int source_x = (change.mirrored ? from.width - 1 - x : x) + change.left;
        int source_y = y + change.up;
        bool inside = (u32)source_x < (u32)from.width && (u32)source_y < (u32)from.height;
        i64 source = ((index * from.height + source_y) * from.width + source_x) * from.channels + channel;
        float value = 0.f;
        if (inside) {
            value = normalized(d, from.bytes ? (float)from.bytes[source] : from.floats[source], channel);
        }
        to[y * d.row + x * d.pixel + channel] = value;
    }
}

// The batch of each replica's next step. Blocks: (batch, 1, replicas).
extern "C" __global__ void __launch_bounds__(128) draw_batch(const __grid_constant__ Draw d) {
    const int replica = blockIdx.z, at = blockIdx.x;
    const Replica& run = d.replicas[replica];
    if (!run.active) return;
    __shared__ u32 keys[ROUNDS];
    __shared__ u32 example;
    u32 per_epoch = d.examples / d.batch;
    u64 epoch = run.step / per_epoch;
    if (threadIdx.x < ROUNDS / 4) draw_keys(keys, run.seed, epoch, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 spot = (u32)(run.step % per_epoch) * d.batch + at;
        example = permuted(spot, d.examples, keys);
        d.labels[replica * d.batch + at] = d.from.labels[example];
    }
    __syncthreads();
    Change change{0, 0, false};
    if (d.crop_padding > 0 || d.flip) {
        Words words = philox(run.seed, AUGMENTATION, run.step, at);
        u64 range = 2 * d.crop_padding + 1;
        change.up = (int)((words.w[0] * range) >> 32) - d.crop_padding;
        change.left = (int)((words.w[1] * range) >> 32) - d.crop_padding;
        change.mirrored = d.flip && words.w[2] >> 31 == 1;
    }
    float* to = d.inputs + replica * d.inputs_replica + at * d.image + d.corner;
    put_image(d, example, to, change);
}

// Consecutive examples, for an evaluation. Blocks: (batch).
extern "C" __global__ void __launch_bounds__(128) put_examples(const __grid_constant__ Draw d) {
    u32 index = d.first + blockIdx.x;
    if (index >= d.examples) return;
    put_image(d, index, d.inputs + blockIdx.x * d.image + d.corner, Change{0, 0, false});
}

struct Picks {
    const int* labels;
    const Replica* replicas;
    int2* picks;  // (replicas, most steps, batch) of example and label
    u32 examples;
    int batch;
    int steps, most_steps;
};

// Which examples the next steps take. Threads: (steps · batch, 1, replicas).
extern "C" __global__ void __launch_bounds__(128) draw_picks(const __grid_constant__ Picks p) {
    const int replica = blockIdx.z, at = blockIdx.x * blockDim.x + threadIdx.x;
    const Replica& run = p.replicas[replica];
    if (!run.active || at >= p.steps * p.batch) return;
    u32 per_epoch = p.examples / p.batch;
    u64 step = run.step + at / p.batch;
    u32 keys[ROUNDS];
#pragma unroll
    for (int part = 0; part < ROUNDS / 4; ++part) draw_keys(keys, run.seed, step / per_epoch, part);
    u32 spot = (u32)(step % per_epoch) * p.batch + at % p.batch;
    u32 example = permuted(spot, p.examples, keys);
    p.picks[(i64)replica * p.most_steps * p.batch + at] = make_int2(example, p.labels[example]);
}
