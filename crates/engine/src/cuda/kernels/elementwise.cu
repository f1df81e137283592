// Activation, sum and dropout: four values in, four out. Blocks: (fours, 1, replicas).

struct Elementwise {
    const float* x;
    const float* y;
    float* z;
    i64 x_replica, y_replica, z_replica;
    const Replica* replicas;
    Plane x_plane, y_plane, z_plane;
    int count;       // fours without borders
    u32 add;         // z ← z + …
    int channels;    // dropout: without padding
    u32 layer;       // dropout: which one of the network
    u32 threshold;   // dropout: words below it drop
    float kept;
};

#define EACH_FOUR(e)                                                         \
    const int replica = blockIdx.z;                                          \
    const int at = blockIdx.x * blockDim.x + threadIdx.x;                    \
    if (!(e).replicas[replica].active || at >= (e).count) return;            \
    const Spot s = spot((e).z_plane, at);                                    \
    float4& z = four((e).z + replica * (e).z_replica + place((e).z_plane, s)); \
    const float4 x = read_four((e).x + replica * (e).x_replica + place((e).x_plane, s));

__device__ __forceinline__ float4 other(const Elementwise& e, int replica, const Spot& s) {
    return read_four(e.y + replica * e.y_replica + place(e.y_plane, s));
}

// z = max(0, x).
extern "C" __global__ void __launch_bounds__(256) activate(const __grid_constant__ Elementwise e) {
    EACH_FOUR(e);
    z = relu(x);
}

// z = x + y.
extern "C" __global__ void __launch_bounds__(256) add_both(const __grid_constant__ Elementwise e) {
    EACH_FOUR(e);
    z = add(x, other(e, replica, s));
}

// z = x, or z + x, where the activation's output y lets it pass (y absent: everywhere).
extern "C" __global__ void __launch_bounds__(256) pass_back(const __grid_constant__ Elementwise e) {
    EACH_FOUR(e);
    float4 gradient = x;
    if (e.y) gradient = pass_relu(gradient, other(e, replica, s));
    z = e.add ? add(z, gradient) : gradient;
}

// z = x·mask, the mask drawn anew wherever it is needed; back through it when `add` or y is given.
extern "C" __global__ void __launch_bounds__(256) drop(const __grid_constant__ Elementwise e) {
    EACH_FOUR(e);
    // The host counts values without the padding of channels.
    const u32 pixel = (s.image * e.z_plane.height + s.y) * e.z_plane.width + s.x;
    const u32 index = pixel * e.channels + s.channel;
    const Replica& run = e.replicas[replica];
    Words words;
    float mask[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const u32 own = index + i;
        if (i == 0 || own % 4 == 0) words = philox(run.seed, DROPOUT + e.layer, run.step, own / 4);
        const bool kept = s.channel + (int)i < e.channels && words.w[own % 4] >= e.threshold;
        mask[i] = kept ? e.kept : 0.f;
    }
    float4 value = make_float4(x.x * mask[0], x.y * mask[1], x.z * mask[2], x.w * mask[3]);
    if (e.y) value = pass_relu(value, other(e, replica, s));
    z = e.add ? add(z, value) : value;
}
