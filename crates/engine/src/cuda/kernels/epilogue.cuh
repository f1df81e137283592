// What becomes of the sums of a product.

// Where the results of one block go.
struct Sink {
    const Product& p;
    int replica;
    float* c;
    float learning_rate;

    __device__ __forceinline__ float* velocities() const { return p.velocity + replica * p.c_replica; }
};

// Sums of a thread, by fours that are neighbours in C: the row and the column in the tile of each, and whether it
// is one.
#if B_PACKED
// As the tensor cores leave them, since columns are packed for that.
struct Own {
    static constexpr int IN_ROW = N_FRAGMENTS / 2, COUNT = M_FRAGMENTS * 2 * IN_ROW;
    static constexpr int UNROLL = COUNT;
    const float (&c)[M_FRAGMENTS][N_FRAGMENTS][4];
    int warp_m;

    __device__ __forceinline__ int row(int i) const {
        return warp_m + threadIdx.x % 32 / 4 + i / IN_ROW * 8;
    }
    __device__ __forceinline__ int column(int i) const {
        return threadIdx.x % 4 * 4 + i % IN_ROW * 16;
    }
    __device__ __forceinline__ static bool inside(int) { return true; }
    __device__ __forceinline__ float4 sum(int i) const {
        const int half = i / IN_ROW % 2 * 2;
        const float(&two)[4] = c[i / IN_ROW / 2][i % IN_ROW * 2];
        const float(&next)[4] = c[i / IN_ROW / 2][i % IN_ROW * 2 + 1];
        return make_float4(two[half], two[half + 1], next[half], next[half + 1]);
    }
};
#else
// Through shared memory, by rows along which C is contiguous.
struct Own {
    static constexpr int OUTER = C_INNER ? TILE_M : TILE_N, INNER = C_INNER ? TILE_N : TILE_M;
    static constexpr int QUADS = INNER / 4, ALL = OUTER * QUADS;
    static constexpr int COUNT = (ALL + THREADS - 1) / THREADS, UNROLL = 1;
    static constexpr int STRIDE = INNER + 4;  // of the sums in shared memory
    static_assert(THREADS % QUADS == 0, "a thread keeps its column");

    const float* sums;

    __device__ __forceinline__ static int row(int i) { return (threadIdx.x + i * THREADS) / QUADS; }
    __device__ __forceinline__ static int column(int) { return threadIdx.x % QUADS * 4; }
    __device__ __forceinline__ static bool inside(int i) { return ALL % THREADS == 0 || row(i) < OUTER; }
    __device__ __forceinline__ float4 sum(int i) const {
        return read_four(sums + row(i) * STRIDE + column(i));
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
                    *reinterpret_cast<float2*>(sums + m * Own::STRIDE + n) = make_float2(one, next);
                } else {
                    sums[n * Own::STRIDE + m] = one;
                    sums[(n + 1) * Own::STRIDE + m] = next;
                }
            }
        }
    }
}
#endif

// Where a four of C lies.
__device__ __forceinline__ int place_in_c(const Product& p, int row, int column) {
    if (C_MATRIX) return row * p.c_step + column;
    if (C_INNER) return __ldg(p.c_m + row) + column;
    return __ldg(p.c_n + row) + (p.c_m ? __ldg(p.c_m + column) : column);
}

// A four of all the same.
__device__ __forceinline__ float4 four_of(float x) { return make_float4(x, x, x, x); }

// What is read beside the sums is read for several fours before the first is written; where there is nothing to be
// read, what changes nothing takes its place.
__device__ __forceinline__ void put(const Sink& sink, const Own& own, int first_m, int first_n) {
    constexpr int BATCH = Own::COUNT < 4 ? Own::COUNT : 4;
    static_assert(Own::COUNT % BATCH == 0, "whole batches");
    const Product& p = sink.p;
    const float* biases = p.bias + sink.replica * p.bias_replica;
    const float* others = p.other + sink.replica * p.other_replica;
    float* active = p.active + sink.replica * p.active_replica;
    const int rows = C_INNER ? p.m : p.n, columns = C_INNER ? p.n : p.m;
    const int first_row = C_INNER ? first_m : first_n, first_column = C_INNER ? first_n : first_m;
#pragma unroll(Own::UNROLL)
    for (int first = 0; first < Own::COUNT; first += BATCH) {
        bool inside[BATCH];
        int to[BATCH], to_active[BATCH];
        float4 bias[BATCH], other[BATCH], old[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            int row = first_row + own.row(first + b), column = first_column + own.column(first + b);
            inside[b] = own.inside(first + b) && row < rows && column < columns;
            row = min(row, rows - 1);
            if (!C_INNER) column = column < columns ? column : 0;
            to[b] = place_in_c(p, row, column);
            bias[b] = old[b] = four_of(0.f);
            other[b] = four_of(EPILOGUE == DATA ? 1.f : 0.f);
            if (EPILOGUE == FORWARD && p.active) to_active[b] = __ldg(p.active_x + row) + column;
            const int from = EPILOGUE != PARTIAL && p.other_x ? __ldg(p.other_x + row) + column : to[b];
            if (EPILOGUE == FORWARD && p.bias && inside[b]) bias[b] = read_four(biases + column);
            if (EPILOGUE != PARTIAL && p.other && inside[b]) other[b] = read_four(others + from);
            if (EPILOGUE == DATA && p.add && inside[b]) old[b] = read_four(sink.c + to[b]);
        }
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            if (!inside[b]) continue;
            float4 value = own.sum(first + b);
            if (EPILOGUE != PARTIAL) value = scaled(p.scale, value);
            if (EPILOGUE == FORWARD) {
                value = add(add(value, scaled(p.scale, bias[b])), other[b]);
                if (p.relu) value = relu(value);
                if (p.active) four(active + to_active[b]) = relu(value);
            } else if (EPILOGUE == DATA) {
                value = add(pass_relu(value, other[b]), old[b]);
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
    static constexpr int OWN = Own::COUNT;
    float4 weight[OWN], velocity[OWN];

    // Offset of a thread's i-th four in C; negative outside.
    __device__ __forceinline__ static int place(const Product& p, int i, int first_m, int first_n) {
        int m = first_m + Own::row(i), n = first_n + Own::column(i);
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

    __device__ __forceinline__ void step(const Sink& sink, const Own& own, int first_m, int first_n) {
        const Product& p = sink.p;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            int at = place(p, i, first_m, first_n);
            if (at >= 0) {
                const float4 gradient = scaled(p.scale, own.sum(i));
                descend(weight[i], velocity[i], gradient, sink.learning_rate, p.descent);
                four(sink.velocities() + at) = velocity[i];
                four(sink.c + at) = weight[i];
            }
        }
    }
};
#endif
