// What becomes of the sums of a product.

// Where the results of one block go.
struct Sink {
    const Product& p;
    int replica;
    float* c;
    float learning_rate;

    __device__ __forceinline__ float* velocities() const { return p.velocity + replica * p.c_replica; }

#if C_INNER == 0
    // One sum of a C that is contiguous along m.
    __device__ __forceinline__ void put(int m, int n, float sum) const {
        int to = (p.c_m ? __ldg(p.c_m + m) : m) + (p.c_n ? __ldg(p.c_n + n) : n);
        float value = p.scale * sum;
        if (EPILOGUE == FORWARD) {
            if (p.bias) value += p.scale * p.bias[replica * p.bias_replica + m];
            if (p.other) value += p.other[replica * p.other_replica + (__ldg(p.other_x + n) + m)];
            if (p.relu) value = relu(value);
            c[to] = value;
            if (p.active) {
                p.active[replica * p.active_replica + (__ldg(p.active_x + n) + m)] = relu(value);
            }
        } else if (EPILOGUE == DATA) {
            if (p.other) {
                int from = p.other_x ? __ldg(p.other_x + n) + m : to;
                value = pass_relu(value, p.other[replica * p.other_replica + from]);
            }
            c[to] = p.add ? c[to] + value : value;
        }
    }
#endif
};

#if C_INNER == 1
// The tile of a C that is contiguous along n, row by row: a thread has fours of neighbours.
struct Rows {
    static constexpr int QUADS = TILE_N / 4;
    static constexpr int OWN = TILE_M * QUADS / THREADS;
    static constexpr int STRIDE = TILE_N + 4;  // of the sums in shared memory
    static_assert(OWN * THREADS == TILE_M * QUADS, "a thread has whole fours");

    // Row and column of a thread's i-th four.
    __device__ __forceinline__ static int row(int i) { return (threadIdx.x + i * THREADS) / QUADS; }
    __device__ __forceinline__ static int column(int i) {
        return (threadIdx.x + i * THREADS) % QUADS * 4;
    }

    __device__ __forceinline__ static float4 sum(const float* sums, int i) {
        return *reinterpret_cast<const float4*>(sums + row(i) * STRIDE + column(i));
    }
};

// Puts the sums of a tile into shared memory, row by row.
__device__ __forceinline__ void spread(float* sums, const float (&c)[M_FRAGMENTS][N_FRAGMENTS][4],
                                       int warp_m, int warp_n) {
    const int group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float* row = sums + (warp_m + 16 * i + group + 8 * half) * Rows::STRIDE;
#pragma unroll
            for (int j = 0; j < N_FRAGMENTS; ++j) {
                *reinterpret_cast<float2*>(row + warp_n + 8 * j + 2 * lane) =
                    make_float2(c[i][j][2 * half], c[i][j][2 * half + 1]);
            }
        }
    }
}

__device__ __forceinline__ float4& four(float* at) { return *reinterpret_cast<float4*>(at); }

__device__ __forceinline__ float4 read_four(const float* at) {
    return *reinterpret_cast<const float4*>(at);
}

__device__ __forceinline__ float4 add(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ float4 scaled(float s, float4 a) {
    return make_float4(s * a.x, s * a.y, s * a.z, s * a.w);
}

__device__ __forceinline__ float4 relu(float4 a) {
    return make_float4(relu(a.x), relu(a.y), relu(a.z), relu(a.w));
}

__device__ __forceinline__ float4 pass_relu(float4 a, float4 y) {
    return make_float4(pass_relu(a.x, y.x), pass_relu(a.y, y.y), pass_relu(a.z, y.z),
                       pass_relu(a.w, y.w));
}

// What is read beside the sums is read for several fours before the first is written.
__device__ __forceinline__ void put_rows(const Sink& sink, const float* sums, int first_m,
                                         int first_n) {
    constexpr int BATCH = Rows::OWN < 4 ? Rows::OWN : 4;
    const Product& p = sink.p;
    const float* others = p.other + sink.replica * p.other_replica;
#pragma unroll 1
    for (int first = 0; first < Rows::OWN; first += BATCH) {
        int to[BATCH];
        float4 other[BATCH], old[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            int m = first_m + Rows::row(first + b), n = first_n + Rows::column(first + b);
            to[b] = m < p.m && n < p.n ? __ldg(p.c_m + m) + n : -1;
            if (to[b] >= 0 && EPILOGUE != PARTIAL) {
                if (p.other) {
                    int from = p.other_x ? __ldg(p.other_x + m) + n : to[b];
                    other[b] = read_four(others + from);
                }
                if (EPILOGUE == DATA && p.add) old[b] = read_four(sink.c + to[b]);
            }
        }
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            if (to[b] < 0) continue;
            int m = first_m + Rows::row(first + b), n = first_n + Rows::column(first + b);
            float4 value = Rows::sum(sums, first + b);
            if (EPILOGUE != PARTIAL) value = scaled(p.scale, value);
            if (EPILOGUE == FORWARD) {
                const float* bias = p.bias + sink.replica * p.bias_replica + n;
                if (p.bias) value = add(value, scaled(p.scale, read_four(bias)));
                if (p.other) value = add(value, other[b]);
                if (p.relu) value = relu(value);
                if (p.active) {
                    float* active = p.active + sink.replica * p.active_replica;
                    four(active + __ldg(p.active_x + m) + n) = relu(value);
                }
            } else if (EPILOGUE == DATA) {
                if (p.other) value = pass_relu(value, other[b]);
                if (p.add) value = add(value, old[b]);
            }
            four(sink.c + to[b]) = value;
        }
    }
}
#endif

#if EPILOGUE == DESCEND
// The weights and velocities of a tile, row by row: contiguous reads and writes. The sums are short,
// so what they are added to is read before they are taken, all of it under way at once.
struct Weights {
    static constexpr int OWN = Rows::OWN;
    float4 weight[OWN], velocity[OWN];

    // Offset of a thread's i-th four in C; negative outside.
    __device__ __forceinline__ static int place(const Product& p, int i, int first_m, int first_n) {
        int m = first_m + Rows::row(i), n = first_n + Rows::column(i);
        return m < p.m && n < p.n ? __ldg(p.c_m + m) + n : -1;
    }

    __device__ __forceinline__ void read(const Sink& sink, int first_m, int first_n) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            int at = place(sink.p, i, first_m, first_n);
            if (at >= 0) {
                weight[i] = *reinterpret_cast<const float4*>(sink.c + at);
                velocity[i] = *reinterpret_cast<const float4*>(sink.velocities() + at);
            }
        }
    }

    __device__ __forceinline__ void step(const Sink& sink, const float* sums, int first_m,
                                         int first_n) {
        const Product& p = sink.p;
        const float rate = sink.learning_rate;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            int at = place(p, i, first_m, first_n);
            if (at >= 0) {
                const float4 sum = Rows::sum(sums, i);
                float4 &w = weight[i], &v = velocity[i];
                descend(w.x, v.x, p.scale * sum.x, rate, p.descent);
                descend(w.y, v.y, p.scale * sum.y, rate, p.descent);
                descend(w.z, v.z, p.scale * sum.z, rate, p.descent);
                descend(w.w, v.w, p.scale * sum.w, rate, p.descent);
                *reinterpret_cast<float4*>(sink.velocities() + at) = v;
                *reinterpret_cast<float4*>(sink.c + at) = w;
            }
        }
    }
};
#endif
