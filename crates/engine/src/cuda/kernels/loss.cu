// Softmax cross-entropy with its gradient, and counting what is classified right.

struct Loss {
    const float* logits;  // (replicas, batch, stride)
    float* gradient;
    i64 replica_stride;
    const int* labels;  // (replicas, batch), or (batch) in an evaluation
    Replica* replicas;
    int batch, classes, stride;
    float smoothing;
    int which;  // evaluation: which count
    u32 pad;
};

// Mean cross-entropy and ∂loss/∂logits = (p − q)/B with q = (1 − α)·1[label] + α/K. One block per
// replica; a thread takes whole rows, and their losses are summed in the order of the threads.
extern "C" __global__ void __launch_bounds__(128) cross_entropy(const __grid_constant__ Loss l) {
    const int replica = blockIdx.z;
    Replica& run = l.replicas[replica];
    if (!run.active) return;
    const float* logits = l.logits + replica * l.replica_stride;
    float* gradient = l.gradient + replica * l.replica_stride;
    float share = 1.f / l.batch, off = l.smoothing / l.classes, on = 1.f - l.smoothing + off;
    double loss = 0.;
    for (int row = threadIdx.x; row < l.batch; row += blockDim.x) {
        const float* z = logits + row * l.stride;
        float* g = gradient + row * l.stride;
        int label = l.labels[replica * l.batch + row];
        float largest = -3.402823466e38f;
        for (int c = 0; c < l.classes; ++c) largest = fmaxf(largest, z[c]);
        float sum = 0.f;
        for (int c = 0; c < l.classes; ++c) sum += expf(z[c] - largest);
        float log_sum = logf(sum) + largest;
        for (int c = 0; c < l.classes; ++c) {
            float q = c == label ? on : off;
            loss += (double)q * (double)(log_sum - z[c]);
            g[c] = (expf(z[c] - largest) / sum - q) * share;
        }
    }
    __shared__ double sums[4];
    loss = warp_sum(loss);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = loss;
    __syncthreads();
    if (threadIdx.x == 0) {
        double mean = (sums[0] + sums[1] + sums[2] + sums[3]) / l.batch;
        run.loss_sum += mean;
        if (!isfinite(mean) && run.diverged_at == 0) run.diverged_at = run.step + 1;
    }
}

struct End {
    Replica* replicas;
    int count;
    u32 pad;
};

// The step is over; whoever diverged takes no more. Threads: one per replica.
extern "C" __global__ void end_step(const __grid_constant__ End e) {
    int replica = blockIdx.x * blockDim.x + threadIdx.x;
    if (replica >= e.count || !e.replicas[replica].active) return;
    e.replicas[replica].step += 1;
    if (e.replicas[replica].diverged_at != 0) e.replicas[replica].active = 0;
}

// How many rows are largest at their label; the first of equal ones wins, and NaN never does.
extern "C" __global__ void __launch_bounds__(128) count_correct(const __grid_constant__ Loss l) {
    const int replica = blockIdx.z, row = blockIdx.x * blockDim.x + threadIdx.x;
    Replica& run = l.replicas[replica];
    bool right = row < l.batch && run.active;
    if (right) {
        const float* z = l.logits + replica * l.replica_stride + row * l.stride;
        int label = l.labels[row];
        float own = z[label];
        for (int c = 0; c < l.classes; ++c) right = right && (c < label ? own > z[c] : own >= z[c]);
    }
    u32 votes = __ballot_sync(0xffffffffu, right);
    if (threadIdx.x % 32 == 0 && votes) atomicAdd(&run.correct[l.which], __popc(votes));
}
