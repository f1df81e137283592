// Weights: their start, and steps along gradients that were summed in parts.

struct Initial {
    float* weights;
    i64 replica_stride;
    const Replica* replicas;
    const u32* parameter;  // of each weight: which parameter it belongs to,
    const u32* index;      // and its index there
    const double* deviation;  // by parameter; negative: the constant −1 − deviation
    i64 count;
};

// Normal numbers by Box–Muller, as the host's `Stream::normals` draws them.
extern "C" __global__ void __launch_bounds__(256) initial_weights(const __grid_constant__ Initial w) {
    const int replica = blockIdx.z;
    i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= w.count) return;
    u32 parameter = w.parameter[at], index = w.index[at];
    float value = 0.f;
    if (parameter != 0xffffffffu) {
        double deviation = w.deviation[parameter];
        if (deviation < 0.) {
            value = (float)(-1. - deviation);
        } else {
            Words words = philox(w.replicas[replica].seed, INITIAL_WEIGHTS, parameter, index / 4);
            u32 pair = index % 4 / 2 * 2;
            double uniform = ((double)words.w[pair] + 1.) / 4294967296.;
            double radius = deviation * sqrt(-2. * log(uniform));
            double angle = 6.283185307179586 * (double)words.w[pair + 1] / 4294967296.;
            value = (float)(index % 2 == 0 ? radius * cos(angle) : radius * sin(angle));
        }
    }
    w.weights[replica * w.replica_stride + at] = value;
}

struct Finish {
    float* weights;
    float* velocity;
    i64 weights_replica;
    const float* partial;  // (replicas, parts, part)
    i64 partial_replica;
    i64 part;
    const Replica* replicas;
    int count, parts;
    float scale;
    Descent descent;
    u32 pad;
};

// Sums the parts of a weight gradient, in their order, and takes the step.
extern "C" __global__ void __launch_bounds__(256) finish_weights(const __grid_constant__ Finish f) {
    const int replica = blockIdx.z;
    if (!f.replicas[replica].active) return;
    int at = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (at >= f.count) return;
    const float rate = f.replicas[replica].learning_rate;
    const i64 to = replica * f.weights_replica + at;
    float4 w = read_four(f.weights + to), v = read_four(f.velocity + to);
    const float* from = f.partial + replica * f.partial_replica + at;
    float4 sum = read_four(from);
#pragma unroll 4
    for (int part = 1; part < f.parts; ++part) sum = add(sum, read_four(from + part * f.part));
    descend(w, v, scaled(f.scale, sum), rate, f.descent);
    four(f.velocity + to) = v;
    four(f.weights + to) = w;
}

struct Check {
    const float* values;
    i64 replica_stride;
    Replica* replicas;
    i64 count;
};

// A replica whose values are not all finite has diverged at the step it stands at.
extern "C" __global__ void __launch_bounds__(256) check_finite(const __grid_constant__ Check c) {
    const int replica = blockIdx.z;
    Replica& run = c.replicas[replica];
    if (!run.active) return;
    bool bad = false;
    i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < c.count; at += step) {
        bad = bad || !isfinite(c.values[replica * c.replica_stride + at]);
    }
    if (__any_sync(0xffffffffu, bad) && threadIdx.x % 32 == 0) run.diverged_at = run.step;
}
