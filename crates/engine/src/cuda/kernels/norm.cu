// Batch normalization: y = γ·(x − μ)/√(σ² + ϵ) + β per channel.
//
// Sums over a batch are taken in slices: a block sums its slice of the pixels for all
// channels, a second kernel adds the slices in their order, in double precision.

struct Norm {
    const float* x;
    const float* dy;
    float* out;  // y forward, dx backward
    i64 x_replica, y_replica;
    float* weights;  // γ and β at scale and shift
    float* velocity;
    i64 weights_replica;
    float* statistics;  // running mean, then running variance
    i64 statistics_replica;
    float* sums;  // (replicas, slices, 2, channels)
    float* line;  // (replicas, 4, channels): mean, inverse deviation, factor, offset; or
                  // in the backward pass the factors of dy and x, and the constant
    float* line_back;
    const Replica* replicas;
    Plane x_plane, y_plane;
    int scale, shift;  // in the weights
    int pixels;        // of a batch
    int slices, per_slice;
    u32 relu;    // forward: max(0, y) follows
    u32 masked;  // backward: x is an activation's output
    u32 add;
    Descent descent;
};

__device__ __forceinline__ int pixel_place(const Plane& p, int pixel) {
    int x = pixel % p.width, y = pixel / p.width % p.height;
    return place(p, pixel / p.width / p.height, y, x);
}

// Which values a thread of a pass has: four neighbouring channels, of every so-many-th pixel of a slice.
// Channels that are more than fours of threads come in several rounds.
struct Share {
    int lanes, at_a_time;  // threads of a pixel, and pixels of a block
    int lane, pixel;
    int first, end;  // the thread's first pixel of the batch, and where the slice ends

    __device__ __forceinline__ explicit Share(const Norm& n) {
        lanes = min(n.x_plane.channels / 4, (int)blockDim.x);
        at_a_time = blockDim.x / lanes;
        lane = threadIdx.x % lanes;
        pixel = threadIdx.x / lanes;
        first = blockIdx.x * n.per_slice + pixel;
        end = min(n.pixels, (int)(blockIdx.x + 1) * n.per_slice);
    }

    // Threads that are left over have nothing to do.
    __device__ __forceinline__ bool idle() const { return pixel >= at_a_time; }

    // Calls `read(pixel)`, then `use(pixel, what was read)`. Memory answers late, so several are read before
    // the first is used.
    template <typename Read, typename Use>
    __device__ __forceinline__ void each(Read read, Use use) const {
        constexpr int AHEAD = 4;  // blocks that make one pass have so many pixels for each thread
        if (idle()) return;
        for (int next = first; next < end; next += AHEAD * at_a_time) {
            decltype(read(0)) got[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; ++i) {
                if (next + i * at_a_time < end) got[i] = read(next + i * at_a_time);
            }
#pragma unroll
            for (int i = 0; i < AHEAD; ++i) {
                if (next + i * at_a_time < end) use(next + i * at_a_time, got[i]);
            }
        }
    }
};

// Adds up the sums of all threads that share a channel, two by two, into those of the first.
__device__ __forceinline__ void add_threads(const Share& share, float4& a, float4& b) {
    extern __shared__ float4 partial[];  // (at_a_time, 2, lanes)
    float4* own = partial + share.pixel * 2 * share.lanes + share.lane;
    if (!share.idle()) {
        own[0] = a;
        own[share.lanes] = b;
    }
    for (int left = share.at_a_time; left > 1;) {
        const int half = (left + 1) / 2;
        __syncthreads();
        if (share.pixel + half < left) {
            const float4* other = own + half * 2 * share.lanes;
            a = add(a, other[0]);
            b = add(b, other[share.lanes]);
            own[0] = a;
            own[share.lanes] = b;
        }
        left = half;
    }
    __syncthreads();
}

// Leaves two sums per channel of a slice. `sum_up(share, first, a, b)` adds to them what the thread has of the
// four channels from `first` on.
template <typename SumUp>
__device__ __forceinline__ void sum_slice(const Norm& n, SumUp sum_up) {
    const Share share(n);
    const int channels = n.x_plane.channels;
    float* to = n.sums + ((i64)blockIdx.z * n.slices + blockIdx.x) * 2 * channels;
    for (int first = 4 * share.lane; first - 4 * share.lane < channels; first += 4 * share.lanes) {
        float4 a = make_float4(0.f, 0.f, 0.f, 0.f), b = a;
        const bool inside = first < channels;
        if (inside) sum_up(share, first, a, b);
        add_threads(share, a, b);
        if (inside && share.pixel == 0) {
            four(to + first) = a;
            four(to + channels + first) = b;
        }
    }
}

// Σ (x − x₀) and Σ (x − x₀)², x₀ the channel's first value: near the mean, so that little cancels.
extern "C" __global__ void __launch_bounds__(256) norm_sums(const __grid_constant__ Norm n) {
    if (!n.replicas[blockIdx.z].active) return;
    const float* x = n.x + blockIdx.z * n.x_replica;
    sum_slice(n, [&](const Share& share, int channel, float4& a, float4& b) {
        const float4 origin = read_four(x + pixel_place(n.x_plane, 0) + channel);
        share.each(
            [&](int pixel) { return read_four(x + pixel_place(n.x_plane, pixel) + channel); },
            [&](int, float4 value) {
                value = subtract(value, origin);
                a = add(a, value);
                b = multiply_add(value, value, b);
            });
    });
}

// Adds up the slices of a channel: eight threads have every eighth each, and the first gets the sums of all.
// Threads: 32 channels by eight.
struct Channel {
    static constexpr int STRANDS = 8;
    int channel;
    bool chief;  // inside, and the one that goes on
    double a = 0., b = 0.;

    __device__ __forceinline__ explicit Channel(const Norm& n) {
        __shared__ double sums[2][STRANDS][32];
        const int channels = n.x_plane.channels, lane = threadIdx.x % 32, strand = threadIdx.x / 32;
        channel = blockIdx.x * 32 + lane;
        chief = channel < channels && strand == 0;
        if (channel < channels) {
            const float* from = n.sums + (i64)blockIdx.z * n.slices * 2 * channels + channel;
            for (int slice = strand; slice < n.slices; slice += STRANDS) {
                a += from[(i64)slice * 2 * channels];
                b += from[(i64)slice * 2 * channels + channels];
            }
        }
        sums[0][strand][lane] = a;
        sums[1][strand][lane] = b;
        __syncthreads();
        if (!chief) return;
        for (int other = 1; other < STRANDS; ++other) {
            a += sums[0][other][lane];
            b += sums[1][other][lane];
        }
    }
};

__device__ __forceinline__ void put_line(const Norm& n, int replica, int channel, float mean,
                                         float inverse) {
    int channels = n.x_plane.channels;
    float* line = n.line + (i64)replica * 4 * channels + channel;
    const float* weights = n.weights + replica * n.weights_replica;
    float factor = weights[n.scale + channel] * inverse;
    line[0] = mean;
    line[channels] = inverse;
    line[2 * channels] = factor;
    line[3 * channels] = weights[n.shift + channel] - mean * factor;
}

// Statistics of the batch, which also move the running ones.
extern "C" __global__ void __launch_bounds__(256) norm_statistics(const __grid_constant__ Norm n) {
    const int replica = blockIdx.z, channels = n.x_plane.channels;
    if (!n.replicas[replica].active) return;
    const Channel sums(n);
    if (!sums.chief) return;
    const int channel = sums.channel;
    const double sum = sums.a, squares = sums.b, count = n.pixels;
    double origin = n.x[replica * n.x_replica + pixel_place(n.x_plane, 0) + channel];
    float mean = (float)(origin + sum / count);
    double spread = squares - sum * sum / count;
    if (spread < 0.) spread = 0.;
    put_line(n, replica, channel, mean, (float)(1. / sqrt(spread / count + 1e-5)));
    float* running = n.statistics + replica * n.statistics_replica + channel;
    running[0] = (float)(0.9 * running[0] + 0.1 * mean);
    running[channels] = (float)(0.9 * running[channels] + 0.1 * spread / fmax(count - 1., 1.));
}

// The running statistics instead. Threads: one per channel.
extern "C" __global__ void norm_running(const __grid_constant__ Norm n) {
    const int replica = blockIdx.z, channel = blockIdx.x * blockDim.x + threadIdx.x;
    const int channels = n.x_plane.channels;
    if (!n.replicas[replica].active || channel >= channels) return;
    const float* running = n.statistics + replica * n.statistics_replica + channel;
    put_line(n, replica, channel, running[0], (float)(1. / sqrt((double)running[channels] + 1e-5)));
}

// y = x·factor + offset, then the activation.
extern "C" __global__ void __launch_bounds__(256) norm_apply(const __grid_constant__ Norm n) {
    const int replica = blockIdx.z, channels = n.x_plane.channels;
    if (!n.replicas[replica].active) return;
    const float* x = n.x + replica * n.x_replica;
    float* y = n.out + replica * n.y_replica;
    const Share share(n);
    for (int channel = 4 * share.lane; channel < channels; channel += 4 * share.lanes) {
        const float* line = n.line + (i64)replica * 4 * channels + channel;
        const float4 factor = read_four(line + 2 * channels);
        const float4 offset = read_four(line + 3 * channels);
        share.each(
            [&](int pixel) { return read_four(x + pixel_place(n.x_plane, pixel) + channel); },
            [&](int pixel, float4 value) {
                value = multiply_add(value, factor, offset);
                if (n.relu) value = relu(value);
                four(y + pixel_place(n.y_plane, pixel) + channel) = value;
            });
    }
}

// A pixel's gradient, its input, and what its input's gradient was before.
struct Back {
    float4 dy, x, old;
};

// Σ dy and Σ dy·(x − μ).
extern "C" __global__ void __launch_bounds__(256) norm_back_sums(const __grid_constant__ Norm n) {
    if (!n.replicas[blockIdx.z].active) return;
    const float* x = n.x + blockIdx.z * n.x_replica;
    const float* dy = n.dy + blockIdx.z * n.y_replica;
    sum_slice(n, [&](const Share& share, int channel, float4& a, float4& b) {
        const float4 mean = read_four(n.line + (i64)blockIdx.z * 4 * n.x_plane.channels + channel);
        share.each(
            [&](int pixel) {
                return Back{read_four(dy + pixel_place(n.y_plane, pixel) + channel),
                            read_four(x + pixel_place(n.x_plane, pixel) + channel), {}};
            },
            [&](int, const Back& at) {
                a = add(a, at.dy);
                b = multiply_add(at.dy, subtract(at.x, mean), b);
            });
    });
}

// Steps of γ and β, and dx = of_dy·dy + of_x·x + constant, collected from
// dx = γ·inverse·(dy − mean(dy) − x̂·mean(dy·x̂)).
extern "C" __global__ void __launch_bounds__(256) norm_back_line(const __grid_constant__ Norm n) {
    const int replica = blockIdx.z, channels = n.x_plane.channels;
    const Replica& run = n.replicas[replica];
    if (!run.active) return;
    const Channel sums(n);
    if (!sums.chief) return;
    const int channel = sums.channel;
    const double shift = sums.a;
    double scale = sums.b;
    const float* line = n.line + (i64)replica * 4 * channels + channel;
    double mean = line[0], inverse = line[channels];
    scale *= inverse;
    float* weights = n.weights + replica * n.weights_replica;
    float* velocity = n.velocity + replica * n.weights_replica;
    double front = weights[n.scale + channel] * inverse;
    double slope = -front * inverse * scale / n.pixels;
    float* back = n.line_back + (i64)replica * 4 * channels + channel;
    back[0] = (float)front;
    back[channels] = (float)slope;
    back[2 * channels] = (float)(-front * shift / n.pixels - slope * mean);
    descend(weights[n.scale + channel], velocity[n.scale + channel], (float)scale,
            run.learning_rate, n.descent);
    descend(weights[n.shift + channel], velocity[n.shift + channel], (float)shift,
            run.learning_rate, n.descent);
}

extern "C" __global__ void __launch_bounds__(256) norm_back_apply(const __grid_constant__ Norm n) {
    const int replica = blockIdx.z, channels = n.x_plane.channels;
    if (!n.replicas[replica].active) return;
    const float* x = n.x + replica * n.x_replica;
    const float* dy = n.dy + replica * n.y_replica;
    float* dx = n.out + replica * n.x_replica;
    const Share share(n);
    for (int channel = 4 * share.lane; channel < channels; channel += 4 * share.lanes) {
        const float* line = n.line_back + (i64)replica * 4 * channels + channel;
        const float4 of_dy = read_four(line), of_x = read_four(line + channels);
        const float4 constant = read_four(line + 2 * channels);
        share.each(
            [&](int pixel) {
                const int from = pixel_place(n.x_plane, pixel) + channel;
                Back at = {read_four(dy + pixel_place(n.y_plane, pixel) + channel),
                           read_four(x + from), {}};
                if (n.add) at.old = read_four(dx + from);
                return at;
            },
            [&](int pixel, const Back& at) {
                float4 value = multiply_add(of_dy, at.dy, multiply_add(of_x, at.x, constant));
                if (n.masked) value = pass_relu(value, at.x);
                if (n.add) value = add(value, at.old);
                four(dx + pixel_place(n.x_plane, pixel) + channel) = value;
            });
    }
}
