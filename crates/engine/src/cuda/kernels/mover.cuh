// Tiles of the operands of a product, from memory to shared memory.

// Moves tiles of one operand into shared memory. Strides are such that the fragments of a warp
// fall into different banks.
//
// A thread copies every ROWS-th row of a tile. In general a table says where each lies. Where no row
// lies outside and they lie alike in all tiles (SEGMENT > 0), the table is asked for the thread's first
// only: the next is STEP floats on, and every SEGMENT-th JUMP floats. These are constants of the copy
// instructions, and nothing else is computed for each.
//
// STEADY: tiles lie at even distances, with another one after every few; then no table is asked at all while
// they are copied.
//
// PACKED: rows of 32 terms lie as the tensor cores read them, see `packed_place`.
template <int X, int INNER, int VECTOR, bool MATRIX, bool STEADY, int SEGMENT, int STEP, int JUMP,
          bool PACKED = false>
struct Mover {
    static constexpr int STRIDE =
        INNER == K_INNER ? TILE_K + (PACKED ? 0 : 4) : (X == 8 ? 8 : X + 8);
    static constexpr int FLOATS = INNER == K_INNER ? X * STRIDE : TILE_K * STRIDE;
    static constexpr int CHUNKS = (INNER == K_INNER ? TILE_K : X) / VECTOR;
    static constexpr int OUTER = INNER == K_INNER ? X : TILE_K;
    static constexpr int ROWS = THREADS / CHUNKS > 0 ? THREADS / CHUNKS : 1;
    static constexpr int PASSES = (OUTER + ROWS - 1) / ROWS;
    static constexpr bool ALIKE = SEGMENT > 0;
    static_assert(THREADS % CHUNKS == 0, "a thread keeps its place along the inner direction");
    static_assert(!ALIKE || (VECTOR == 4 && PASSES * ROWS == OUTER), "rows alike are whole");
    static_assert(!PACKED || (INNER == K_INNER && VECTOR == 4 && TILE_K == 32 && ROWS % 8 == 0),
                  "a thread's rows are packed alike");

    const float* values;
    const Operand* operand;
    const float* next;  // STEADY: the thread's first copy of the tile that is copied next,
    int left;           // and tiles until the distance is another, with it
    float* tiles;       // one after the other
    int inner, outer;
    int first_place;  // where the thread's first copy goes
    int x[INNER == K_INNER && !ALIKE ? PASSES : 1];  // negative: outside
    int k[INNER == K_INNER || ALIKE ? 1 : PASSES];   // of the tile that is copied next
    int own;                                         // where the thread's fragments begin in a tile

    // `warp_x`, `warp_k`: where those of its warp do.
    __device__ __forceinline__ void start(const Operand& from, int replica, int first, int count,
                                          int warp_x, int warp_k, float* to) {
        tiles = to;
        own = opaque(place(warp_x + threadIdx.x % 32 / 4, warp_k + threadIdx.x % 4));
        values = from.values + replica * from.replica;
        operand = &from;
        inner = threadIdx.x % CHUNKS * VECTOR;
        outer = threadIdx.x / CHUNKS;
        first_place = PACKED ? packed_place(outer, inner) : outer * STRIDE + inner;
        if (ALIKE) {
            int at = first + (INNER == K_INNER ? outer : inner);
            x[0] = at < count ? entry<MATRIX>(from.x, at, from.x_step) : 0;
        } else if (INNER == K_INNER) {
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                int at = first + outer + pass * ROWS;
                x[pass] = at < count && outer + pass * ROWS < X ? entry<MATRIX>(from.x, at, from.x_step) : -1;
            }
        } else {
            x[0] = first + inner < count ? entry<MATRIX>(from.x, first + inner, from.x_step) : -1;
        }
    }

    __device__ __forceinline__ int term(int number) const {
        return entry<MATRIX>(operand->k, number, operand->k_step);
    }

    // Looks up the terms from `first` on, well before they are needed.
    __device__ __forceinline__ void look(int first, int end) {
        if (ALIKE) {
            if (first < end) k[0] = term(first + (INNER == K_INNER ? inner : outer));
        } else if (INNER == K_INNER) {
            if (first + inner < end) k[0] = term(first + inner);
        } else {
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                int row = first + outer + pass * ROWS;
                if (row < end) k[pass] = term(row);
            }
        }
    }

    __device__ __forceinline__ void begin(const Block& block) {
        if (STEADY) {
            next = opaque(values + x[0] + term(block.first_k + (INNER == K_INNER ? inner : outer)));
            left = operand->few - block.first_k / TILE_K % operand->few;
        } else {
            look(block.first_k, block.end_k);
        }
    }

    __device__ __forceinline__ void issue(int slot, int first, int end) {
        if (STEADY) {
            copy_alike(slot, next, first, end);
            const bool last = --left == 0;
            next += last ? operand->tile_jump : operand->tile_step;
            left = last ? operand->few : left;
        } else {
            copy_tile(slot, first, end);
            look(first + TILE_K, end);
        }
    }

    __device__ __forceinline__ const float* tile(int slot) const { return tiles + slot * FLOATS; }

    // Copies what lies in [first, end) of k into a slot, the thread's first copy from here; what lies outside
    // becomes 0.
    __device__ __forceinline__ void copy_alike(int slot, const float* from, int first, int end) const {
        constexpr int segment = ALIKE ? SEGMENT : 1;
        float* to = tiles + slot * FLOATS + first_place;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            float* place = to + pass * ROWS * STRIDE;
            const float* at = from + (pass % segment * STEP + pass / segment * JUMP);
            if (TAIL) {
                const int term = INNER == K_INNER ? inner : outer + pass * ROWS;
                copy_16<CACHED>(place, at, first + term < end ? 16 : 0);
            } else {
                copy_16<CACHED>(place, at);
            }
        }
    }

    __device__ __forceinline__ void copy_tile(int slot, int first, int end) const {
        float* tile = tiles + slot * FLOATS;
        if (ALIKE) {
            copy_alike(slot, values + (x[0] + k[0]), first, end);
        } else if (INNER == K_INNER) {
            bool inside = first + inner < end;
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                int row = outer + pass * ROWS;
                if (PASSES * ROWS == X || row < X) {
                    bool valid = inside && x[pass] >= 0;
                    const float* from = valid ? values + x[pass] + k[0] : values;
                    copy(tile + first_place + pass * ROWS * STRIDE, from, valid);
                }
            }
        } else {
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                int row = outer + pass * ROWS;
                if (PASSES * ROWS == TILE_K || row < TILE_K) {
                    bool valid = first + row < end && x[0] >= 0;
                    const float* from = valid ? values + x[0] + k[pass] : values;
                    copy(tile + first_place + pass * ROWS * STRIDE, from, valid);
                }
            }
        }
    }

    // Neighbouring taps read the same pixels.
    static constexpr bool CACHED = INNER == K_INNER;

    __device__ __forceinline__ static void copy(float* to, const float* from, bool valid) {
        int bytes = valid ? 4 * VECTOR : 0;
        if (VECTOR == 4) {
            copy_16<CACHED>(to, from, bytes);
        } else {
            copy_4(to, from, bytes);
        }
    }

    __device__ __forceinline__ static constexpr int place(int at, int k) {
        return INNER == K_INNER ? at * STRIDE + k : k * STRIDE + at;
    }
};

// How a sum asks for the tiles of A: `start` and `begin`; ahead of time `issue` for each; then for one after
// the other `wait`, a barrier of all threads, `enter`, `tile`, and `leave` when it is multiplied. For those of B
// likewise; there `show` goes before the barrier, for tensor cores that read tiles by themselves, and `wait`,
// which comes after it, is for what is not the threads' own copies: for those A waits.
#if HALO == 0
// A tile by tile of the sum.
struct MoverA : Mover<TILE_M, A_INNER, A_VECTOR, A_MATRIX, A_STEADY, A_SEGMENT, A_STEP, A_JUMP> {
    __device__ __forceinline__ void start(const Product& p, const Block& block, int warp_k, float* to) {
        Mover::start(p.a, block.replica, block.first_m, p.m, block.warp_m, warp_k, to);
    }

    __device__ __forceinline__ void wait() const { wait_copies<UNDER_WAY - 1>(); }

    __device__ __forceinline__ void enter(int, int) {}

    __device__ __forceinline__ void leave() {}

    __device__ __forceinline__ float at(const float* tile, int i, int half, int k) const {
        return tile[own + place(16 * i + 8 * half, k)];
    }
};
#else
// A convolution whose sum takes 32 channels through all taps before the next 32. Outputs that
// are neighbours read pixels that are neighbours, and borders included they lie one after the
// other; so the 32 channels of all of them are copied once, for all taps.
struct MoverA {
    static constexpr int STRIDE = TILE_K + 4;
    static constexpr int FLOATS = HALO * STRIDE;
    // A thread copies four channels of every PLACES-th pixel.
    static constexpr int CHUNKS = TILE_K / 4;
    static constexpr int PLACES = THREADS / CHUNKS;
    static constexpr int PASSES = (HALO + PLACES - 1) / PLACES;
    const float* values;  // from the thread's first on
    int left;             // floats from there to the end
    int* taps;            // where each reads, in shared memory
    int tap, here, next;  // the tile's tap, and where it and the next one read
    int row[M_FRAGMENTS][2];  // where the thread's fragments begin
    float *current, *other;   // the channels that are multiplied, and room for the next

    // `place`: the buffers, and behind them the taps.
    __device__ __forceinline__ void start(const Product& p, const Block& block, int, float* place) {
        const int first_m = block.first_m;
        const int first = __ldg(p.a.x + first_m) + p.halo_first;
        const int own = first + threadIdx.x / CHUNKS * PIXEL + threadIdx.x % CHUNKS * 4;
        values = p.a.values + block.replica * p.a.replica + own;
        left = p.halo_end - own;
        taps = reinterpret_cast<int*>(place + 2 * FLOATS);
        if (threadIdx.x < TAPS) taps[threadIdx.x] = __ldg(p.a.k + threadIdx.x) * STRIDE;
        tap = 0;
        here = __ldg(p.a.k) * STRIDE;
        next = __ldg(p.a.k + 1) * STRIDE;
#pragma unroll
        for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int m = first_m + block.warp_m + threadIdx.x % 32 / 4 + 16 * i + 8 * half;
                int x = m < p.m ? __ldg(p.a.x + m) - __ldg(p.a.x + first_m) : 0;
                row[i][half] = x / PIXEL * STRIDE + threadIdx.x % 4;
            }
        }
        current = place;
        other = place + FLOATS;
    }

    __device__ __forceinline__ void begin(const Block&) { copy_channels(current); }

    __device__ __forceinline__ void issue(int, int, int) {}

    __device__ __forceinline__ void wait() const {
        if (!B_PACKED) {
            wait_copies<UNDER_WAY - 1>();
        } else if (tap == 0) {
            // No copies are the threads' own but those of channels.
            wait_all_copies();
        }
    }

    // All warps are through with the channels before these.
    __device__ __forceinline__ void enter(int tile, int tiles) {
        if (tap == 0 && tile + TAPS < tiles) copy_channels(other);
    }

    __device__ __forceinline__ const float* tile(int) const { return current; }

    // The next 32 channels that have not been copied.
    __device__ __forceinline__ void copy_channels(float* buffer) {
        const int place = threadIdx.x / CHUNKS;
        float* to = buffer + place * STRIDE + threadIdx.x % CHUNKS * 4;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            if (PASSES * PLACES == HALO || place + pass * PLACES < HALO) {
                constexpr int step = PLACES * PIXEL;
                copy_16<true>(to + pass * PLACES * STRIDE, values + pass * step,
                              pass * step < left ? 16 : 0);
            }
        }
        values += TILE_K;
        left -= TILE_K;
    }

    // To the tap of the next tile; the one after that is looked up.
    __device__ __forceinline__ void leave() {
        tap = tap + 1 == TAPS ? 0 : tap + 1;
        here = next;
        next = taps[tap + 1 == TAPS ? 0 : tap + 1];
        if (tap == 0) {
            float* multiplied = current;
            current = other;
            other = multiplied;
        }
    }

    __device__ __forceinline__ float at(const float* tile, int i, int half, int k) const {
        return tile[row[i][half] + here + k];
    }
};
#endif
