// What all kernels share: the state of a replica, random streams, and how activations lie.
//
// Every buffer has a leading replica axis. `*_replica` is the number of floats from one
// replica to the next; 0 lets all replicas read the same values.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// One run of the cohort. The host writes it once; kernels move it on.
struct Replica {
    u64 seed;
    u64 step;         // steps taken
    u64 diverged_at;  // step after which the loss was not finite, 0 if none
    double loss_sum;  // since the last evaluation
    float learning_rate;
    u32 active;  // 0: nothing is computed for it any more
    u32 correct[2];
};

// (B, height, width, channels), channels last and padded, each image inside a border of zeros.
struct Plane {
    int height, width, channels, border;
    int row, image;  // floats from one row, or image, to the next
};

__device__ __forceinline__ int place(const Plane& p, int image, int y, int x) {
    return image * p.image + (y + p.border) * p.row + (x + p.border) * p.channels;
}

// Four neighbouring channels of a batch, counted without borders: their image, row, column and first channel.
struct Spot {
    int image, y, x, channel;
};

__device__ __forceinline__ Spot spot(const Plane& p, int index) {
    const int fours = p.channels / 4;
    Spot s;
    s.channel = index % fours * 4;
    index /= fours;
    s.x = index % p.width;
    index /= p.width;
    s.y = index % p.height;
    s.image = index / p.height;
    return s;
}

__device__ __forceinline__ int place(const Plane& p, const Spot& s) {
    return place(p, s.image, s.y, s.x) + s.channel;
}

// max(0, x), NaN for NaN.
__device__ __forceinline__ float relu(float x) { return x < 0.f ? 0.f : x; }

// A gradient passes where the output of the activation is above 0; NaN outputs keep theirs.
__device__ __forceinline__ float pass_relu(float gradient, float y) {
    return y <= 0.f ? 0.f : gradient;
}

// Rounds to 10 bits behind the point, halves away from 0. The tensor cores read no lower bits, so an
// addition does what the conversion instruction would do at a fraction of its rate. Of the device's NaN,
// whose bits are all ones, it would make a zero: the larger of both keeps it, in the same instruction.
__device__ __forceinline__ u32 tf32(float x) {
    u32 bits = __float_as_uint(x);
    return (u32)max((int)(bits + 0x1000u), (int)bits);
}

// The number that remains.
__device__ __forceinline__ float rounded(float x) {
    return __uint_as_float(tf32(x) & 0xffffe000u);
}

// One step of the descent: v ← m·v + g, then θ ← θ − ε(g + m·v) or θ ← θ − ε·v.
struct Descent {
    float momentum;
    u32 nesterov;
};

__device__ __forceinline__ void descend(
    float& weight, float& velocity, float gradient, float learning_rate, const Descent& rule) {
    velocity = fmaf(rule.momentum, velocity, gradient);
    float move = rule.nesterov ? fmaf(rule.momentum, velocity, gradient) : velocity;
    weight = fmaf(-learning_rate, move, weight);
}

// Philox4x32 with ten rounds, the streams of the host's `random` module.
struct Words {
    u32 w[4];
};

enum Purpose { INITIAL_WEIGHTS = 0, ORDER = 1, AUGMENTATION = 2, DROPOUT = 3 };

__device__ inline Words philox(u64 seed, u32 purpose, u64 position, u32 lane) {
    u32 c0 = lane, c1 = (u32)position, c2 = (u32)(position >> 32), c3 = purpose;
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        if (round > 0) {
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        u64 first = (u64)c0 * 0xD2511F53u, second = (u64)c2 * 0xCD9E8D57u;
        u32 n0 = (u32)(second >> 32) ^ c1 ^ k0, n2 = (u32)(first >> 32) ^ c3 ^ k1;
        c1 = (u32)second;
        c3 = (u32)first;
        c0 = n0;
        c2 = n2;
    }
    return Words{{c0, c1, c2, c3}};
}

// Sum over a warp, the same in every lane.
template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}
