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
    int count;  // fours, one for each thread
    u32 masked;  // x is an activation's output
    u32 add;
    u32 pad;
};

// The larger one; NaN if either is.
__device__ __forceinline__ float larger(float a, float b) { return b <= a || isnan(a) ? a : b; }

__device__ __forceinline__ float4 larger(float4 a, float4 b) {
    return make_float4(larger(a.x, b.x), larger(a.y, b.y), larger(a.z, b.z), larger(a.w, b.w));
}

// The window of an output, four channels of it. SIDE: that of a square, if it is known beforehand; then all
// of it is read at once.
template <int SIDE>
struct Window {
    static constexpr int ALL = SIDE > 0 ? SIDE * SIDE : 1;  // what is read at once
    int rows, columns;
    i64 corner;
    int down, right;  // floats from a pixel to the next

    __device__ __forceinline__ Window(const Pool& p, int replica, const Spot& s) {
        rows = SIDE > 0 ? SIDE : p.rows;
        columns = SIDE > 0 ? SIDE : p.columns;
        corner = replica * p.x_replica + place(p.x_plane, s.image, s.y * rows, s.x * columns) + s.channel;
        down = p.x_plane.row;
        right = p.x_plane.channels;
    }

    __device__ __forceinline__ int count() const { return rows * columns; }

    // Where its i-th pixel lies.
    __device__ __forceinline__ i64 place_of(int i) const {
        return corner + i / columns * down + i % columns * right;
    }
};

template <int SIDE>
__device__ __forceinline__ void pool_forward(const Pool& p, bool maximum) {
    const int replica = blockIdx.z, at = blockIdx.x * blockDim.x + threadIdx.x;
    if (!p.replicas[replica].active || at >= p.count) return;
    const Spot s = spot(p.y_plane, at);
    const Window<SIDE> window(p, replica, s);
    float4 value = maximum ? read_four(p.x + window.corner) : make_float4(0.f, 0.f, 0.f, 0.f);
    for (int row = 0; row < window.rows; ++row) {
#pragma unroll 4
        for (int column = 0; column < window.columns; ++column) {
            const i64 from = window.corner + row * window.down + column * window.right;
            const float4 next = read_four(p.x + from);
            value = maximum ? larger(value, next) : add(value, next);
        }
    }
    if (!maximum) value = scaled(1.f / window.count(), value);
    four(p.out + replica * p.y_replica + place(p.y_plane, s)) = value;
}

extern "C" __global__ void __launch_bounds__(256) max_forward(const __grid_constant__ Pool p) {
    if (p.rows == 2 && p.columns == 2) {
        pool_forward<2>(p, true);
    } else {
        pool_forward<0>(p, true);
    }
}

extern "C" __global__ void __launch_bounds__(256) mean_forward(const __grid_constant__ Pool p) {
    pool_forward<0>(p, false);
}

// What a value of a window gets: all of it, if it is the first that equals the maximum.
__device__ __forceinline__ float share(float x, float y, float gradient, bool& found) {
    const bool chosen = !found && (x == y || isnan(x));
    found = found || chosen;
    return chosen ? gradient : 0.f;
}

// A thread writes the gradients of a window, and zeros to the pixels beyond the last ones, which no window has.
template <int SIDE>
__device__ __forceinline__ void max_back(const Pool& p) {
    const int replica = blockIdx.z, at = blockIdx.x * blockDim.x + threadIdx.x;
    if (!p.replicas[replica].active || at >= p.count) return;
    const Spot s = spot(p.y_plane, at);
    const Window<SIDE> window(p, replica, s);
    constexpr int ALL = Window<SIDE>::ALL;
    const i64 from = replica * p.y_replica + place(p.y_plane, s);
    const float4 y = read_four(p.y + from), gradient = read_four(p.dy + from);
    bool found[4] = {};
    for (int first = 0; first < window.count(); first += ALL) {
        float4 x[ALL], old[ALL];
#pragma unroll
        for (int i = 0; i < ALL; ++i) {
            x[i] = read_four(p.x + window.place_of(first + i));
            if (p.add) old[i] = read_four(p.out + window.place_of(first + i));
        }
#pragma unroll
        for (int i = 0; i < ALL; ++i) {
            float4 value = make_float4(
                share(x[i].x, y.x, gradient.x, found[0]), share(x[i].y, y.y, gradient.y, found[1]),
                share(x[i].z, y.z, gradient.z, found[2]), share(x[i].w, y.w, gradient.w, found[3]));
            if (p.masked) value = pass_relu(value, x[i]);
            if (p.add) value = add(old[i], value);
            four(p.out + window.place_of(first + i)) = value;
        }
    }
    const bool last_row = s.y + 1 == p.y_plane.height, last_column = s.x + 1 == p.y_plane.width;
    if (p.add || !(last_row || last_column)) return;
    const int rows = last_row ? p.x_plane.height - s.y * window.rows : window.rows;
    const int columns = last_column ? p.x_plane.width - s.x * window.columns : window.columns;
    for (int row = 0; row < rows; ++row) {
        for (int column = row < window.rows ? window.columns : 0; column < columns; ++column) {
            four(p.out + window.corner + row * window.down + column * window.right) =
                make_float4(0.f, 0.f, 0.f, 0.f);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) max_backward(const __grid_constant__ Pool p) {
    if (p.rows == 2 && p.columns == 2) {
        max_back<2>(p);
    } else {
        max_back<0>(p);
    }
}

// A thread writes four gradients.
extern "C" __global__ void __launch_bounds__(256) mean_backward(const __grid_constant__ Pool p) {
    const int replica = blockIdx.z, at = blockIdx.x * blockDim.x + threadIdx.x;
    if (!p.replicas[replica].active || at >= p.count) return;
    const Spot s = spot(p.x_plane, at);
    const int row = s.y / p.rows, column = s.x / p.columns;
    float4 value = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row < p.y_plane.height && column < p.y_plane.width) {
        const int from = place(p.y_plane, s.image, row, column) + s.channel;
        value = scaled(1.f / (p.rows * p.columns), read_four(p.dy + replica * p.y_replica + from));
    }
    const i64 to = replica * p.x_replica + place(p.x_plane, s);
    if (p.masked) value = pass_relu(value, read_four(p.x + to));
    if (p.add) value = add(read_four(p.out + to), value);
    four(p.out + to) = value;
}
