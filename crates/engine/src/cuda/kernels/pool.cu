// Pooling over windows side by side.

struct Pool {
    const float* x;
    const float* y;
    const float* dy;
    float* out;  // y forward, dx backward
    i64 x_replica, y_replica;
    const Replica* replicas;
    Plane x_plane, y_plane;
    int rows, columns;  // of a window
    int count;
    u32 masked;  // x is an activation's output
    u32 add;
    u32 pad;
};

// The largest value of a window; NaN if it holds one.
__device__ __forceinline__ float largest(const Pool& p, const float* window) {
    float best = window[0];
    for (int row = 0; row < p.rows; ++row) {
        for (int column = 0; column < p.columns; ++column) {
            float value = window[row * p.x_plane.row + column * p.x_plane.channels];
            best = value <= best || isnan(best) ? best : value;
        }
    }
    return best;
}

__device__ __forceinline__ void pool_forward(const Pool& p, bool maximum) {
    const int replica = blockIdx.z;
    if (!p.replicas[replica].active) return;
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.count) return;
    Spot s = spot(p.y_plane, at);
    const float* window = p.x + replica * p.x_replica +
                          place(p.x_plane, s.image, s.y * p.rows, s.x * p.columns) + s.channel;
    float value = 0.f;
    if (maximum) {
        value = largest(p, window);
    } else {
        for (int row = 0; row < p.rows; ++row) {
            for (int column = 0; column < p.columns; ++column) {
                value += window[row * p.x_plane.row + column * p.x_plane.channels];
            }
        }
        value /= p.rows * p.columns;
    }
    p.out[replica * p.y_replica + place(p.y_plane, s)] = value;
}

extern "C" __global__ void __launch_bounds__(256) max_forward(const __grid_constant__ Pool p) {
    pool_forward(p, true);
}

extern "C" __global__ void __launch_bounds__(256) mean_forward(const __grid_constant__ Pool p) {
    pool_forward(p, false);
}

// A thread writes the gradients of one window; the first value that equals the maximum has it
// all. Rows and columns outside every window are written by nobody and stay 0.
extern "C" __global__ void __launch_bounds__(256) max_backward(const __grid_constant__ Pool p) {
    const int replica = blockIdx.z;
    if (!p.replicas[replica].active) return;
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.count) return;
    Spot s = spot(p.y_plane, at);
    i64 corner = replica * p.x_replica +
                 place(p.x_plane, s.image, s.y * p.rows, s.x * p.columns) + s.channel;
    i64 from = replica * p.y_replica + place(p.y_plane, s);
    float y = p.y[from], gradient = p.dy[from];
    bool found = false;
    for (int row = 0; row < p.rows; ++row) {
        for (int column = 0; column < p.columns; ++column) {
            i64 pixel = corner + row * p.x_plane.row + column * p.x_plane.channels;
            float x = p.x[pixel];
            bool chosen = !found && (x == y || isnan(x));
            found = found || chosen;
            float value = chosen ? gradient : 0.f;
            if (p.masked) value = pass_relu(value, x);
            p.out[pixel] = p.add ? p.out[pixel] + value : value;
        }
    }
}

// A thread writes one gradient.
extern "C" __global__ void __launch_bounds__(256) mean_backward(const __grid_constant__ Pool p) {
    const int replica = blockIdx.z;
    if (!p.replicas[replica].active) return;
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.count) return;
    Spot s = spot(p.x_plane, at);
    int row = s.y / p.rows, column = s.x / p.columns;
    float value = 0.f;
    if (row < p.y_plane.height && column < p.y_plane.width) {
        value = p.dy[replica * p.y_replica + place(p.y_plane, s.image, row, column) + s.channel];
        value /= p.rows * p.columns;
    }
    i64 to = replica * p.x_replica + place(p.x_plane, s);
    if (p.masked) value = pass_relu(value, p.x[to]);
    p.out[to] = p.add ? p.out[to] + value : value;
}
