// Warps that multiply by fours: the tensor cores read B from shared memory by themselves, and only A
// passes through registers.

#if GROUPED

static_assert(WARPS_N == 1 && WARPS_K == 1 && TERMS == 1 && TILE_K == 32, "as they multiply");

// The sum of a column of a tile; what lies there was rounded.
__device__ __forceinline__ float column_sum(const float* tile, int column) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < TILE_K; i += 4) {
        float4 at = read_four(tile + packed_place(B_PACKED ? packed_column(column) : column, i));
        sum += at.x + at.y + at.z + at.w;
    }
    return sum;
}

#if B_PACKED
// Tiles of B lie in memory as the tensor cores read them (`pack.cu`), those of a part one after the other:
// one thread has each copied as a whole.
struct MoverB {
    static constexpr int FLOATS = TILE_N * TILE_K;

    float* tiles;
    const float* next;

    // One for each slot.
    __device__ __forceinline__ static Arrival* arrivals() {
        __shared__ Arrival each[STAGES];
        return each;
    }

    __device__ __forceinline__ void start(const Product& p, const Block& block, int, float* to) {
        tiles = to;
        const int all = (p.k + TILE_K - 1) / TILE_K;
        const int tile = block.first_n / TILE_N * all + block.first_k / TILE_K;
        next = p.b.values + block.replica * p.b.replica + (i64)tile * FLOATS;
        if (threadIdx.x == 0) expect_arrivals(arrivals(), STAGES);
    }

    __device__ __forceinline__ void begin(const Block&) {}

    __device__ __forceinline__ void issue(int slot, int, int) {
        if (threadIdx.x == 0) {
            copy_whole(tiles + slot * FLOATS, next, 4 * FLOATS, arrivals() + slot);
        }
        next += FLOATS;
    }

    __device__ __forceinline__ void show() const {}

    // Waits for a tile of the sum. Its slot was taken tile / STAGES times before.
    __device__ __forceinline__ void wait(int slot, int tile) const {
        wait_arrival(arrivals() + slot, tile / STAGES);
    }

    __device__ __forceinline__ const float* tile(int slot) const { return tiles + slot * FLOATS; }
};
#else
// Tiles are packed on their way: the terms of a column lie one after the other, and whoever wrote them has
// rounded them.
struct MoverB : Mover<TILE_N, B_INNER, B_VECTOR, B_MATRIX, B_STEADY, B_SEGMENT, B_STEP, B_JUMP, true> {
    __device__ __forceinline__ void start(const Product& p, const Block& block, int, float* to) {
        Mover::start(p.b, block.replica, block.first_n, p.n, 0, 0, to);
    }

    __device__ __forceinline__ void show() const { show_tensor_cores(); }

    __device__ __forceinline__ void wait(int, int) const {}
};
#endif

// What warps multiply at a time. All terms of a warp's rows are read from shared memory before the first are
// multiplied: the products then follow one another without a wait.
struct Stretch {
    static constexpr int STEPS = TILE_K / 8;
    u32 rows[STEPS][M_FRAGMENTS][4];

    __device__ __forceinline__ void read(const MoverA& mover, const float* a) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
                for (int part = 0; part < 4; ++part) {
                    rows[step][i][part] = tf32(mover.at(a, i, part % 2, 8 * step + part / 2 * 4));
                }
            }
        }
    }

    // OVERLAP: those of the stretch before are finished afterwards, but not these.
    __device__ __forceinline__ void multiply(float (&c)[M_FRAGMENTS][N_FRAGMENTS][4], const MoverA&,
                                             const float*, const MoverB&, const float* b) {
        begin_products();
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int i = 0; i < M_FRAGMENTS; ++i) multiply_group(c[i], rows[step][i], b, 8 * step);
        }
        finish_products<OVERLAP>();
    }
};

#endif
