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

// Sums two values per channel over a slice: f(pixel, channel, first, second) adds to them.
// Threads: (channels by fours, pixels at a time).
template <typename F>
__device__ __forceinline__ void sum_slice(const Norm& n, F f) {
    const int replica = blockIdx.z, slice = blockIdx.x, channels = n.x_plane.channels;
    const int lanes = channels < (int)blockDim.x ? channels : blockDim.x;
    const int at_a_time = blockDim.x / lanes;
    extern __shared__ float partial[];  // (at_a_time, 2, lanes)
    const int begin = slice * n.per_slice, end = min(n.pixels, begin + n.per_slice);
    const int own = threadIdx.x / lanes, lane = threadIdx.x % lanes;
    for (int first = 0; first < channels; first += lanes) {
        int channel = first + lane;
        float a = 0.f, b = 0.f;
        if (own < at_a_time && channel < channels) {
            for (int pixel = begin + own; pixel < end; pixel += at_a_time) f(pixel, channel, a, b);
            partial[own * 2 * lanes + lane] = a;
            partial[own * 2 * lanes + lanes + lane] = b;
        }
        __syncthreads();
        if (own == 0 && channel < channels) {
            for (int other = 1; other < at_a_time; ++other) {
                a += partial[other * 2 * lanes + lane];
                b += partial[other * 2 * lanes + lanes + lane];
            }
            float* to = n.sums + ((i64)replica * n.slices + slice) * 2 * channels;
            to[channel] = a;
            to[channels + channel] = b;
        }
        __syncthreads();
    }
}

// Σ (x − x₀) and Σ (x − x₀)², x₀ the channel's first value: near the mean, so that little cancels.
extern "C" __global__ void __launch_bounds__(256) norm_sums(const __grid_constant__ Norm n) {
    if (!n.replicas[blockIdx.z].active) return;
    const float* x = n.x + blockIdx.z * n.x_replica;
    const float* origin = x + pixel_place(n.x_plane, 0);
    sum_slice(n, [&](int pixel, int channel, float& a, float& b) {
        float value = x[pixel_place(n.x_plane, pixel) + channel] - origin[channel];
        a += value;
        b += value * value;
    });
}

__device__ __forceinline__ void add_slices(const Norm& n, int replica, int channel, double& a,
                                           double& b) {
    int channels = n.x_plane.channels;
    const float* from = n.sums + (i64)replica * n.slices * 2 * channels + channel;
    for (int slice = 0; slice < n.slices; ++slice, from += 2 * channels) {
        a += from[0];
        b += from[channels];
    }
}

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

// Statistics of the batch, which also move the running ones. Threads: one per channel.
extern "C" __global__ void norm_statistics(const __grid_constant__ Norm n) {
    const int replica = blockIdx.z, channel = blockIdx.x * blockDim.x + threadIdx.x;
    const int channels = n.x_plane.channels;
    if (!n.replicas[replica].active || channel >= channels) return;
    double sum = 0., squares = 0., count = n.pixels;
    add_slices(n, replica, channel, sum, squares);
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

// y = x·factor + offset, then the activation. Threads: four channels each.
extern "C" __global__ void __launch_bounds__(256) norm_apply(const __grid_constant__ Norm n) {
    const int replica = blockIdx.z, channels = n.x_plane.channels;
    if (!n.replicas[replica].active) return;
    int at = blockIdx.x * blockDim.x + threadIdx.x, quads = channels / 4;
    if (at >= n.pixels * quads) return;
    int pixel = at / quads, channel = at % quads * 4;
    const float* line = n.line + (i64)replica * 4 * channels + channel;
    float4 factor = *reinterpret_cast<const float4*>(line + 2 * channels);
    float4 offset = *reinterpret_cast<const float4*>(line + 3 * channels);
    float4 x = *reinterpret_cast<const float4*>(
        n.x + replica * n.x_replica + pixel_place(n.x_plane, pixel) + channel);
    float4 y = make_float4(fmaf(x.x, factor.x, offset.x), fmaf(x.y, factor.y, offset.y),
                           fmaf(x.z, factor.z, offset.z), fmaf(x.w, factor.w, offset.w));
    if (n.relu) y = make_float4(relu(y.x), relu(y.y), relu(y.z), relu(y.w));
    *reinterpret_cast<float4*>(
        n.out + replica * n.y_replica + pixel_place(n.y_plane, pixel) + channel) = y;
}

// Σ dy and Σ dy·(x − μ).
extern "C" __global__ void __launch_bounds__(256) norm_back_sums(const __grid_constant__ Norm n) {
    if (!n.replicas[blockIdx.z].active) return;
    const int channels = n.x_plane.channels;
    const float* x = n.x + blockIdx.z * n.x_replica;
    const float* dy = n.dy + blockIdx.z * n.y_replica;
    const float* mean = n.line + (i64)blockIdx.z * 4 * channels;
    sum_slice(n, [&](int pixel, int channel, float& a, float& b) {
        float gradient = dy[pixel_place(n.y_plane, pixel) + channel];
        a += gradient;
        b += gradient * (x[pixel_place(n.x_plane, pixel) + channel] - mean[channel]);
    });
}

// Steps of γ and β, and dx = of_dy·dy + of_x·x + constant, collected from
// dx = γ·inverse·(dy − mean(dy) − x̂·mean(dy·x̂)). Threads: one per channel.
extern "C" __global__ void norm_back_line(const __grid_constant__ Norm n) {
    const int replica = blockIdx.z, channel = blockIdx.x * blockDim.x + threadIdx.x;
    const int channels = n.x_plane.channels;
    const Replica& run = n.replicas[replica];
    if (!run.active || channel >= channels) return;
    double shift = 0., scale = 0.;
    add_slices(n, replica, channel, shift, scale);
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

__device__ __forceinline__ float input_gradient(const Norm& n, float dy, float x, float of_dy,
                                                float of_x, float constant) {
    float value = fmaf(of_dy, dy, fmaf(of_x, x, constant));
    return n.masked ? pass_relu(value, x) : value;
}

// Threads: four channels each.
extern "C" __global__ void __launch_bounds__(256) norm_back_apply(const __grid_constant__ Norm n) {
    const int replica = blockIdx.z, channels = n.x_plane.channels;
    if (!n.replicas[replica].active) return;
    int at = blockIdx.x * blockDim.x + threadIdx.x, quads = channels / 4;
    if (at >= n.pixels * quads) return;
    int pixel = at / quads, channel = at % quads * 4;
    const float* line = n.line_back + (i64)replica * 4 * channels + channel;
    float4 of_dy = *reinterpret_cast<const float4*>(line);
    float4 of_x = *reinterpret_cast<const float4*>(line + channels);
    float4 constant = *reinterpret_cast<const float4*>(line + 2 * channels);
    i64 from = replica * n.x_replica + pixel_place(n.x_plane, pixel) + channel;
    float4 x = *reinterpret_cast<const float4*>(n.x + from);
    float4 dy = *reinterpret_cast<const float4*>(
        n.dy + replica * n.y_replica + pixel_place(n.y_plane, pixel) + channel);
    float4 dx = make_float4(input_gradient(n, dy.x, x.x, of_dy.x, of_x.x, constant.x),
                            input_gradient(n, dy.y, x.y, of_dy.y, of_x.y, constant.y),
                            input_gradient(n, dy.z, x.z, of_dy.z, of_x.z, constant.z),
                            input_gradient(n, dy.w, x.w, of_dy.w, of_x.w, constant.w));
    float4* to = reinterpret_cast<float4*>(n.out + from);
    if (n.add) {
        float4 old = *to;
        dx = make_float4(dx.x + old.x, dx.y + old.y, dx.z + old.z, dx.w + old.w);
    }
    *to = dx;
}
