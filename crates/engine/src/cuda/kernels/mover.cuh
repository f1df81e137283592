// Tiles of the operands of a product, from memory to shared memory.

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
        int bytes = valid ? 4 * VECTOR : 0;
        if (VECTOR == 4) {
            // Neighbouring taps read the same pixels.
            copy_16<INNER == K_INNER>(to, from, bytes);
        } else {
            copy_4(to, from, bytes);
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
