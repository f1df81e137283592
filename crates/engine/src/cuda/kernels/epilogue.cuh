// What becomes of the sums of a product.

// Where the results of one block go.
struct Sink {
    const Product& p;
    int replica;
    float* c;
    float learning_rate;

    __device__ __forceinline__ float* velocities() const { return p.velocity + replica * p.c_replica; }
};

// The tile of C by rows along which it is contiguous: a thread has fours of neighbours.
struct Rows {
    static constexpr int OUTER = C_INNER ? TILE_M : TILE_N, INNER = C_INNER ? TILE_N : TILE_M;
    static constexpr int QUADS = INNER / 4, ALL = OUTER * QUADS;
    static constexpr int OWN = (ALL + THREADS - 1) / THREADS;
    static constexpr int STRIDE = INNER + 4;  // of the sums in shared memory
    static_assert(THREADS % QUADS == 0, "a thread keeps its column");

    // Row of a thread's i-th four, and the column of all.
    __device__ __forceinline__ static int row(int i) { return (threadIdx.x + i * THREADS) / QUADS; }
    __device__ __forceinline__ static int column() { return threadIdx.x % QUADS * 4; }

    __device__ __forceinline__ static float4 sum(const float* sums, int i) {
        return read_four(sums + row(i) * STRIDE + column());
    }
};

// Puts the sums of a tile into shared memory, row by row as C has them.
__device__ __forceinline__ void spread(float* sums, const float (&c)[M_FRAGMENTS][N_FRAGMENTS][4],
                                       int warp_m, int warp_n) {
    const int group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int m = warp_m + 16 * i + group + 8 * half;
#pragma unroll
            for (int j = 0; j < N_FRAGMENTS; ++j) {
                const int n = warp_n + 8 * j + 2 * lane;
                const float one = c[i][j][2 * half], next = c[i][j][2 * half + 1];
                if (C_INNER) {
                    *reinterpret_cast<float2*>(sums + m * Rows::STRIDE + n) = make_float2(one, next);
                } else {
                    sums[n * Rows::STRIDE + m] = one;
                    sums[(n + 1) * Rows::STRIDE + m] = next;
                }
            }
        }
    }
}

// Where a four of C lies.
__device__ __forceinline__ int place_in_c(const Product& p, int row, int column) {
    if (C_INNER) return __ldg(p.c_m + row) + column;
    return __ldg(p.c_n + row) + (p.c_m ? __ldg(p.c_m + column) : column);
}

// What is read beside the sums is read for several fours before the first is written.
__device__ __forceinline__ void put_rows(const Sink& sink, const float* sums, int first_m,
                                         int first_n) {
    constexpr int BATCH = Rows::OWN < 4 ? Rows::OWN : 4;
    static_assert(Rows::OWN % BATCH == 0, "whole batches");
    const Product& p = sink.p;
    const float* others = p.other + sink.replica * p.other_replica;
    const int rows = C_INNER ? p.m : p.n, columns = C_INNER ? p.n : p.m;
    const int first_row = C_INNER ? first_m : first_n;
    const int column = (C_INNER ? first_n : first_m) + Rows::column();
    if (column >= columns) return;
    float4 bias = make_float4(0.f, 0.f, 0.f, 0.f);
    if (EPILOGUE == FORWARD && p.bias) {
        bias = scaled(p.scale, read_four(p.bias + sink.replica * p.bias_replica + column));
    }
#pragma unroll 1
    for (int first = 0; first < Rows::OWN; first += BATCH) {
        int to[BATCH];
        float4 other[BATCH], old[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            const int in_tile = Rows::row(first + b);
            const int row = first_row + in_tile;
            bool inside = row < rows && (Rows::ALL % THREADS == 0 || in_tile < Rows::OUTER);
            to[b] = inside ? place_in_c(p, row, column) : -1;
            if (to[b] >= 0 && EPILOGUE != PARTIAL) {
                if (p.other) {
                    int from = p.other_x ? __ldg(p.other_x + row) + column : to[b];
                    other[b] = read_four(others + from);
                }
                if (EPILOGUE == DATA && p.add) old[b] = read_four(sink.c + to[b]);
            }
        }
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            if (to[b] < 0) continue;
            const int row = first_row + Rows::row(first + b);
            float4 value = Rows::sum(sums, first + b);
            if (EPILOGUE != PARTIAL) value = scaled(p.scale, value);
            if (EPILOGUE == FORWARD) {
                value = add(value, bias);
                if (p.other) value = add(value, other[b]);
                if (p.relu) value = relu(value);
                if (p.active) {
                    float* active = p.active + sink.replica * p.active_replica;
                    four(active + __ldg(p.active_x + row) + column) = relu(value);
                }
            } else if (EPILOGUE == DATA) {
                if (p.other) value = pass_relu(value, other[b]);
                if (p.add) value = add(value, old[b]);
            }
            if (p.rounds) value = rounded(value);
            four(sink.c + to[b]) = value;
        }
    }
}

#if EPILOGUE == DESCEND
// The weights and velocities of a tile, row by row: contiguous reads and writes. The sums are short,
// so what they are added to is read before they are taken, all of it under way at once.
struct Weights {
    static constexpr int OWN = Rows::OWN;
    float4 weight[OWN], velocity[OWN];

    // Offset of a thread's i-th four in C; negative outside.
    __device__ __forceinline__ static int place(const Product& p, int i, int first_m, int first_n) {
        int m = first_m + Rows::row(i), n = first_n + Rows::column();
        return m < p.m && n < p.n ? place_in_c(p, m, n) : -1;
    }

    // Has the second cache fetch what a later block will read, so that memory is read while blocks multiply
    // and write as well.
    __device__ __forceinline__ static void fetch_ahead(const Product& p) {
        const u32 all = gridDim.x * gridDim.y;
        const u32 next = blockIdx.x + gridDim.x * blockIdx.y + all * blockIdx.z + p.ahead;
        const u32 replica = next / all, tile = next % all;
        if (replica >= gridDim.z) return;
        constexpr int LINES = TILE_N < 32 ? 1 : TILE_N / 32;  // of 128 bytes
        for (int i = threadIdx.x; i < TILE_M * LINES; i += THREADS) {
            const int m = tile % gridDim.x * TILE_M + i / LINES;
            const int n = tile / gridDim.x * TILE_N + i % LINES * 32;
            if (m >= p.m || n >= p.n) continue;
            const i64 at = replica * p.c_replica + place_in_c(p, m, n);
            fetch_line(p.c + at);
            fetch_line(p.velocity + at);
        }
    }

    __device__ __forceinline__ void read(const Sink& sink, int first_m, int first_n) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            int at = place(sink.p, i, first_m, first_n);
            if (at >= 0) {
                weight[i] = read_four(sink.c + at);
                velocity[i] = read_four(sink.velocities() + at);
            }
        }
    }

    __device__ __forceinline__ void step(const Sink& sink, const float* sums, int first_m,
                                         int first_n) {
        const Product& p = sink.p;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            int at = place(p, i, first_m, first_n);
            if (at >= 0) {
                const float4 gradient = scaled(p.scale, Rows::sum(sums, i));
                descend(weight[i], velocity[i], gradient, sink.learning_rate, p.descent);
                four(sink.velocities() + at) = velocity[i];
                four(sink.c + at) = weight[i];
            }
        }
    }
};
#endif
