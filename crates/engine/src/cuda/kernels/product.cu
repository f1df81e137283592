// The product behind every dense layer and convolution, forward and backward:
//
//     C[m,n] = Σ_k A[m,k]·B[k,n]     for every replica (blockIdx.z)
//
// An element lies at the sum of two table entries, A[m,k] at a.x[m] + a.k[k] and B[k,n] at
// b.x[n] + b.k[k]. With tables a convolution is a product without an im2col copy: the planes
// have borders of zeros, so no address leaves them. Along its inner direction an operand is
// contiguous by fours (VECTOR 4) or not at all (VECTOR 1).
//
// Compiled once per variant, from these macros:
//   TILE_M TILE_N TILE_K  what a block computes at a time
//   WARPS_M WARPS_N       how its warps share the tile,
//   WARPS_K               and the terms of its sums
//   STAGES                tiles in flight from memory
//   A_INNER B_INNER       0: contiguous along k, 1: contiguous along m or n
//   A_VECTOR B_VECTOR     floats per copy, 4 or 1
//   HALO                  0, or pixels of A that a tile reads through all taps of a filter
//   EPILOGUE              what becomes of a sum, see below
//   C_INNER               0: C is contiguous along m, 1: along n
//   TERMS                 1: TF32, 3: each factor as two TF32 numbers, about float32

#define K_INNER 0
#define X_INNER 1

#define FORWARD 0  // z = s·(sum + bias), with what follows it
#define DATA 1     // gradient of the layer's input
#define DESCEND 2  // gradient of the weights, and the step along it
#define PARTIAL 3  // part of a weight gradient, summed later

#define THREADS (32 * WARPS_M * WARPS_N * WARPS_K)
#define WARP_M (TILE_M / WARPS_M)
#define WARP_N (TILE_N / WARPS_N)
#define M_FRAGMENTS (WARP_M / 16)
#define N_FRAGMENTS (WARP_N / 8)

struct Operand {
    const float* values;
    i64 replica;
    const int* x;
    const int* k;
};

struct Product {
    Operand a, b;
    float* c;
    i64 c_replica;
    const int* c_m;
    const int* c_n;
    // FORWARD: b by output, added values, and a second output max(0, c). DATA: the layer's
    // input, if it is an activation's output.
    const float* bias;
    i64 bias_replica;
    const float* other;
    i64 other_replica;
    const int* other_x;
    float* active;
    i64 active_replica;
    const int* active_x;
    // DESCEND, laid out as C.
    float* velocity;
    const Replica* replicas;
    // PARTIAL: floats from one part to the next.
    i64 part;
    // HALO: floats of A before its end; a.k holds the taps, in pixels from the first.
    int halo_end, halo_first, pixel, taps;
    int m, n, k;
    int parts, k_per_part;
    // DESCEND, PARTIAL: where Σ_k B[k,n] goes in C, the bias gradient; negative if nowhere.
    int bias_row;
    float scale;
    u32 relu;
    u32 add;
    Descent descent;
};

// Moves tiles of one operand into shared memory. Strides are such that the fragments of a warp
// fall into different banks.
template <int X, int INNER, int VECTOR>
struct Mover {
    static constexpr int STRIDE = INNER == K_INNER ? TILE_K + 4 : (X == 8 ? 8 : X + 8);
    static constexpr int FLOATS = INNER == K_INNER ? X * STRIDE : TILE_K * STRIDE;
    static constexpr int CHUNKS = (INNER == K_INNER ? TILE_K : X) / VECTOR;
    static constexpr int OUTER = INNER == K_INNER ? X : TILE_K;
    static constexpr int ROWS = THREADS / CHUNKS > 0 ? THREADS / CHUNKS : 1;
    static constexpr int PASSES = (OUTER + ROWS - 1) / ROWS;
    static_assert(THREADS % CHUNKS == 0, "a thread keeps its place along the inner direction");

    const float* values;
    const int* k_table;
    int inner, outer;
    int x[INNER == K_INNER ? PASSES : 1];  // negative: outside
    int k[INNER == K_INNER ? 1 : PASSES];  // of the tile that is copied next

    __device__ __forceinline__ void start(const Operand& from, int replica, int first, int count) {
        values = from.values + replica * from.replica;
        k_table = from.k;
        inner = threadIdx.x % CHUNKS * VECTOR;
        outer = threadIdx.x / CHUNKS;
        if (INNER == K_INNER) {
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                int at = first + outer + pass * ROWS;
                x[pass] = at < count && outer + pass * ROWS < X ? __ldg(from.x + at) : -1;
            }
        } else {
            x[0] = first + inner < count ? __ldg(from.x + first + inner) : -1;
        }
    }

    // Looks up the terms from `first` on, well before they are needed.
    __device__ __forceinline__ void look(int first, int end) {
        if (INNER == K_INNER) {
            if (first + inner < end) k[0] = __ldg(k_table + first + inner);
        } else {
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                int row = first + outer + pass * ROWS;
                if (row < end) k[pass] = __ldg(k_table + row);
            }
        }
    }

    // Copies what lies in [first, end) of k; what lies outside becomes 0.
    __device__ __forceinline__ void issue(float* tile, int first, int end) const {
        if (INNER == K_INNER) {
            bool inside = first + inner < end;
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                int row = outer + pass * ROWS;
                if (PASSES * ROWS == X || row < X) {
                    bool valid = inside && x[pass] >= 0;
                    copy(tile + row * STRIDE + inner, valid ? values + x[pass] + k[0] : values, valid);
                }
            }
        } else {
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                int row = outer + pass * ROWS;
                if (PASSES * ROWS == TILE_K || row < TILE_K) {
                    bool valid = first + row < end && x[0] >= 0;
                    const float* from = valid ? values + x[0] + k[pass] : values;
                    copy(tile + row * STRIDE + inner, from, valid);
                }
            }
        }
    }

    __device__ __forceinline__ static void copy(float* to, const float* from, bool valid) {
        u32 address = (u32)__cvta_generic_to_shared(to);
        int bytes = valid ? 4 * VECTOR : 0;
        if (VECTOR == 4 && INNER == K_INNER) {
            // Neighbouring taps read the same pixels: worth a place in the first cache.
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                         "r"(bytes));
        } else if (VECTOR == 4) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                         "r"(bytes));
        } else {
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
                         "r"(bytes));
        }
    }

    __device__ __forceinline__ static float read(const float* tile, int at, int k) {
        return INNER == K_INNER ? tile[at * STRIDE + k] : tile[k * STRIDE + at];
    }
};

typedef Mover<TILE_N, B_INNER, B_VECTOR> MoverB;

#if HALO == 0
// A tile by tile of the sum.
struct MoverA : Mover<TILE_M, A_INNER, A_VECTOR> {
    static constexpr int BUFFERS = STAGES;
    int row;  // of the thread's first fragment

    __device__ __forceinline__ void start(const Product& p, int replica, int first_m, int warp_m) {
        Mover::start(p.a, replica, first_m, p.m);
        row = warp_m + threadIdx.x % 32 / 4;
    }

    __device__ __forceinline__ void issue_tile(float* tiles, int tile, int first, int end) {
        issue(tiles + tile % STAGES * FLOATS, first, end);
        look(first + TILE_K, end);
    }

    // Makes ready for the reads of a tile.
    __device__ __forceinline__ const float* tile(const float* tiles, int tile) {
        return tiles + tile % STAGES * FLOATS;
    }

    __device__ __forceinline__ float at(const float* tile, int i, int half, int k) const {
        return read(tile, row + 16 * i + 8 * half, k);
    }
};
#else
// A convolution whose sum takes 32 channels through all taps before the next 32. Outputs that
// are neighbours read pixels that are neighbours, and borders included they lie one after the
// other; so the 32 channels of all of them are copied once, for all taps.
struct MoverA {
    static constexpr int STRIDE = TILE_K + 4;
    static constexpr int FLOATS = HALO * STRIDE;
    static constexpr int BUFFERS = 2;
    const float* values;
    const int* tap_table;
    int end, pixel, taps, tap;
    int row[M_FRAGMENTS][2];  // where the thread's fragments begin

    __device__ __forceinline__ void start(const Product& p, int replica, int first_m, int warp_m) {
        const int first = __ldg(p.a.x + first_m) + p.halo_first;
        values = p.a.values + replica * p.a.replica + first;
        end = p.halo_end - first;
        pixel = p.pixel;
        taps = p.taps;
        tap_table = p.a.k;
#pragma unroll
        for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int m = first_m + warp_m + threadIdx.x % 32 / 4 + 16 * i + 8 * half;
                int x = m < p.m ? __ldg(p.a.x + m) - __ldg(p.a.x + first_m) : 0;
                row[i][half] = x / pixel * STRIDE;
            }
        }
    }

    __device__ __forceinline__ void copy_channels(float* tiles, int group) const {
        float* to = tiles + group % BUFFERS * FLOATS;
        for (int at = threadIdx.x; at < HALO * (TILE_K / 4); at += THREADS) {
            int place = at / (TILE_K / 4), channel = at % (TILE_K / 4) * 4;
            int from = place * pixel + group * TILE_K + channel;
            bool valid = from < end;
            Mover<TILE_M, K_INNER, 4>::copy(to + place * STRIDE + channel,
                                            valid ? values + from : values, valid);
        }
    }

    // The first channels come with the first tile, others as soon as their buffer is free.
    __device__ __forceinline__ void issue_tile(float* tiles, int tile, int, int) {
        if (tile == 0) copy_channels(tiles, 0);
    }

    __device__ __forceinline__ const float* tile(const float* tiles, int tile) {
        tap = __ldg(tap_table + tile % taps) * STRIDE;
        return tiles + tile / taps % BUFFERS * FLOATS;
    }

    __device__ __forceinline__ float at(const float* tile, int i, int half, int k) const {
        return tile[row[i][half] + tap + k];
    }
};
#endif

// Rounds to 10 bits behind the point, halves away from 0. The units read no lower bits, so an
// addition does what the conversion instruction would do at a fraction of its rate.
__device__ __forceinline__ u32 tf32(float x) { return __float_as_uint(x) + 0x1000u; }

// A factor as TERMS > 1 ? two numbers : one. The second is what rounding took from the first.
struct Factor {
    u32 high;
#if TERMS > 1
    u32 low;
#endif
};

__device__ __forceinline__ Factor factor(float x) {
    Factor f;
    f.high = tf32(x);
#if TERMS > 1
    f.high &= 0xffffe000u;
    f.low = tf32(x - __uint_as_float(f.high));
#endif
    return f;
}

__device__ __forceinline__ void multiply(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0,
                                         u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// What a warp multiplies at a time: 8 terms of its rows and columns.
struct Fragments {
    Factor a[M_FRAGMENTS][4], b[N_FRAGMENTS][2];

    __device__ __forceinline__ void read(const MoverA& mover, const float* tile_a,
                                         const float* tile_b, int warp_n, int k) {
        int group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                a[i][part] = factor(mover.at(tile_a, i, part % 2, k + lane + part / 2 * 4));
            }
        }
#pragma unroll
        for (int j = 0; j < N_FRAGMENTS; ++j) {
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                int column = warp_n + 8 * j + group;
                b[j][part] = factor(MoverB::read(tile_b, column, k + lane + part * 4));
            }
        }
    }

    __device__ __forceinline__ void add_to(float (&c)[M_FRAGMENTS][N_FRAGMENTS][4]) const {
#pragma unroll
        for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
            for (int j = 0; j < N_FRAGMENTS; ++j) {
#if TERMS > 1
                // The units cut their sums off instead of rounding them: long sums are added
                // up outside.
                float sum[4] = {};
                multiply(sum, a[i][0].low, a[i][1].low, a[i][2].low, a[i][3].low, b[j][0].high,
                         b[j][1].high);
                multiply(sum, a[i][0].high, a[i][1].high, a[i][2].high, a[i][3].high, b[j][0].low,
                         b[j][1].low);
                multiply(sum, a[i][0].high, a[i][1].high, a[i][2].high, a[i][3].high, b[j][0].high,
                         b[j][1].high);
#pragma unroll
                for (int part = 0; part < 4; ++part) c[i][j][part] += sum[part];
#else
                multiply(c[i][j], a[i][0].high, a[i][1].high, a[i][2].high, a[i][3].high,
                         b[j][0].high, b[j][1].high);
#endif
            }
        }
    }
};

// The next fragments are read while the last ones are multiplied, where registers allow.
__device__ __forceinline__ void multiply_tile(float (&c)[M_FRAGMENTS][N_FRAGMENTS][4],
                                              const MoverA& mover, const float* a,
                                              const float* b, int warp_n, int warp_k) {
    constexpr int STEPS = TILE_K / (8 * WARPS_K);
    constexpr bool AHEAD = TERMS == 1;
    Fragments fragments[2];
    if (AHEAD) fragments[0].read(mover, a, b, warp_n, 8 * warp_k);
    if (AHEAD) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            int k = 8 * ((step + 1) * WARPS_K + warp_k);
            if (step + 1 < STEPS) fragments[(step + 1) % 2].read(mover, a, b, warp_n, k);
            fragments[step % 2].add_to(c);
        }
    } else {
#pragma unroll 1
        for (int step = 0; step < STEPS; ++step) {
            fragments[0].read(mover, a, b, warp_n, 8 * (step * WARPS_K + warp_k));
            fragments[0].add_to(c);
        }
    }
}

// Where the results of one block go.
struct Sink {
    const Product& p;
    int replica;
    float* c;
    float learning_rate;

    __device__ __forceinline__ float* velocities() const { return p.velocity + replica * p.c_replica; }

    __device__ __forceinline__ int at(int m, int n) const {
        return (p.c_m ? __ldg(p.c_m + m) : m) + (p.c_n ? __ldg(p.c_n + n) : n);
    }

    __device__ __forceinline__ int along(const int* table, int m, int n) const {
        return C_INNER == 1 ? __ldg(table + m) + n : __ldg(table + n) + m;
    }

    __device__ __forceinline__ void put(int m, int n, float sum) const {
        int to = at(m, n);
        float value = p.scale * sum;
        if (EPILOGUE == FORWARD) {
            if (p.bias) value += p.scale * p.bias[replica * p.bias_replica + (C_INNER ? n : m)];
            if (p.other) value += p.other[replica * p.other_replica + along(p.other_x, m, n)];
            if (p.relu) value = relu(value);
            c[to] = value;
            if (p.active) {
                p.active[replica * p.active_replica + along(p.active_x, m, n)] = relu(value);
            }
        } else if (EPILOGUE == DATA) {
            if (p.other) {
                int from = p.other_x ? along(p.other_x, m, n) : to;
                value = pass_relu(value, p.other[replica * p.other_replica + from]);
            }
            c[to] = p.add ? c[to] + value : value;
        }
    }
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

#if WARPS_K > 1
// Adds what the warps of one tile have summed, in their order, into those of the first.
__device__ __forceinline__ void add_warps(float (&c)[M_FRAGMENTS][N_FRAGMENTS][4], float* shared,
                                          int warp, int warp_k) {
    constexpr int OWN = M_FRAGMENTS * N_FRAGMENTS * 4;
    float* sums = &c[0][0][0];
    float* own = shared + (warp * (WARPS_K - 1) * OWN) * 32 + threadIdx.x % 32;
    if (warp_k > 0) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) own[((warp_k - 1) * OWN + i) * 32] = sums[i];
    }
    __syncthreads();
    if (warp_k == 0) {
        for (int other = 0; other < WARPS_K - 1; ++other) {
#pragma unroll
            for (int i = 0; i < OWN; ++i) sums[i] += own[(other * OWN + i) * 32];
        }
    }
}
#endif

// Blocks of a multiprocessor that registers should allow: the step of weights waits for memory, the
// more of it the better.
#define FEWEST_BLOCKS (EPILOGUE == DESCEND ? 4 : 1)

extern "C" __global__ void __launch_bounds__(THREADS, FEWEST_BLOCKS)
product(const __grid_constant__ Product p) {
    const int replica = blockIdx.z;
    if (!p.replicas[replica].active) return;
    extern __shared__ __align__(16) float shared[];
    float* tiles_a = shared;
    float* tiles_b = shared + MoverA::BUFFERS * MoverA::FLOATS;

    const int first_m = blockIdx.x * TILE_M;
    const int part = blockIdx.y % p.parts, first_n = blockIdx.y / p.parts * TILE_N;
    const int first_k = part * p.k_per_part, end_k = min(p.k, first_k + p.k_per_part);
    const int tiles = end_k > first_k ? (end_k - first_k + TILE_K - 1) / TILE_K : 0;

    MoverA a;
    MoverB b;
    const int warp = threadIdx.x / 32 / WARPS_K, warp_k = threadIdx.x / 32 % WARPS_K;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;
    a.start(p, replica, first_m, warp_m);
    b.start(p.b, replica, first_n, p.n);
#if HALO == 0
    a.look(first_k, end_k);
#endif
    b.look(first_k, end_k);
    auto issue = [&](int tile) {
        if (tile < tiles) {
            int slot = tile % STAGES, k = first_k + tile * TILE_K;
            a.issue_tile(tiles_a, tile, k, end_k);
            b.issue(tiles_b + slot * MoverB::FLOATS, k, end_k);
            b.look(k + TILE_K, end_k);
        }
        asm volatile("cp.async.commit_group;");
    };
#pragma unroll
    for (int tile = 0; tile < STAGES - 1; ++tile) issue(tile);

    const int group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
    float* out = p.c + replica * p.c_replica + (EPILOGUE == PARTIAL ? part * p.part : 0);
    Sink sink{p, replica, out, p.replicas[replica].learning_rate};
#if EPILOGUE == DESCEND
    Weights weights;
    weights.read(sink, first_m, first_n);
#endif
    float c[M_FRAGMENTS][N_FRAGMENTS][4] = {};
    const bool sums_bias =
        (EPILOGUE == DESCEND || EPILOGUE == PARTIAL) && p.bias_row >= 0 && blockIdx.x == 0;
    float bias_sum = 0.f;
    for (int tile = 0; tile < tiles; ++tile) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
#if HALO > 0
        // All warps are through with the channels before these.
        if (tile % a.taps == 0 && tile + a.taps < tiles) a.copy_channels(tiles_a, tile / a.taps + 1);
#endif
        issue(tile + STAGES - 1);
        const float* tile_a = a.tile(tiles_a, tile);
        const float* tile_b = tiles_b + tile % STAGES * MoverB::FLOATS;
        multiply_tile(c, a, tile_a, tile_b, warp_n, warp_k);
        if (sums_bias && threadIdx.x < TILE_N) {
#pragma unroll 8
            for (int k = 0; k < TILE_K; ++k) bias_sum += MoverB::read(tile_b, threadIdx.x, k);
        }
    }

#if WARPS_K > 1
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    add_warps(c, shared, warp, warp_k);
    if (warp_k > 0) return;
#endif
#if C_INNER == 1
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    spread(shared, c, warp_m, warp_n);
    __syncthreads();
#if EPILOGUE == DESCEND
    weights.step(sink, shared, first_m, first_n);
#else
    put_rows(sink, shared, first_m, first_n);
#endif
#else
#pragma unroll
    for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int m = first_m + warp_m + 16 * i + group + 8 * half;
            if (m >= p.m) continue;
#pragma unroll
            for (int j = 0; j < N_FRAGMENTS; ++j) {
                int n = first_n + warp_n + 8 * j + 2 * lane;
                if (n < p.n) sink.put(m, n, c[i][j][2 * half]);
                if (n + 1 < p.n) sink.put(m, n + 1, c[i][j][2 * half + 1]);
            }
        }
    }
#endif
    int n = first_n + threadIdx.x;
    if (sums_bias && threadIdx.x < TILE_N && n < p.n) {
        int to = p.bias_row + n;
        if (EPILOGUE == PARTIAL) {
            out[to] = bias_sum;
        } else {
            float* velocity = sink.velocities();
            descend(out[to], velocity[to], p.scale * bias_sum, sink.learning_rate, p.descent);
        }
    }
}
