// Activation, sum and dropout: one value in, one value out. Blocks: (values, 1, replicas).

struct Elementwise {
    const float* x;
    const float* y;
    float* z;
    i64 x_replica, y_replica, z_replica;
    const Replica* replicas;
    Plane x_plane, y_plane, z_plane;
    int count;       // values without borders
    u32 add;         // z ← z + …
    int channels;    // dropout: without padding
    u32 layer;       // dropout: which one of the network
    u32 threshold;   // dropout: words below it drop
    float kept;
};

#define EACH_VALUE(e)                                        \
    const int replica = blockIdx.z;                          \
    if (!(e).replicas[replica].active) return;               \
    const int at = blockIdx.x * blockDim.x + threadIdx.x;    \
    if (at >= (e).count) return;                             \
    const Spot s = spot((e).z_plane, at);                    \
    float& z = (e).z[replica * (e).z_replica + place((e).z_plane, s)]; \
    const float x = (e).x[replica * (e).x_replica + place((e).x_plane, s)];

// z = max(0, x).
extern "C" __global__ void __launch_bounds__(256) activate(const __grid_constant__ Elementwise e) {
    EACH_VALUE(e);
    z = relu(x);
}

// z = x + y.
extern "C" __global__ void __launch_bounds__(256) add(const __grid_constant__ Elementwise e) {
    EACH_VALUE(e);
    z = x + e.y[replica * e.y_replica + place(e.y_plane, s)];
}

// z = x, or z + x, where the activation's output y lets it pass (y absent: everywhere).
extern "C" __global__ void __launch_bounds__(256) pass_back(const __grid_constant__ Elementwise e) {
    EACH_VALUE(e);
    float gradient = x;
    if (e.y) gradient = pass_relu(gradient, e.y[replica * e.y_replica + place(e.y_plane, s)]);
    z = e.add ? z + gradient : gradient;
}

// z = x·mask, the mask drawn anew wherever it is needed; back through it when `add` or y is given.
extern "C" __global__ void __launch_bounds__(256) drop(const __grid_constant__ Elementwise e) {
    EACH_VALUE(e);
    float mask = 0.f;
    if (s.channel < e.channels) {
        // The host counts values without the padding of channels.
        u32 index = (u32)((s.image * e.z_plane.height + s.y) * e.z_plane.width + s.x) * e.channels + s.channel;
        const Replica& run = e.replicas[replica];
        Words words = philox(run.seed, DROPOUT + e.layer, run.step, index / 4);
        mask = words.w[index % 4] < e.threshold ? 0.f : e.kept;
    }
    float value = x * mask;
    if (e.y) value = pass_relu(value, e.y[replica * e.y_replica + place(e.y_plane, s)]);
    z = e.add ? z + value : value;
}
