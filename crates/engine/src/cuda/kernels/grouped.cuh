// Warps that multiply by fours: the tensor cores read B from shared memory by themselves, and only A
// passes through registers.

#if GROUPED

static_assert(WARPS_N == 1 && WARPS_K == 1 && TERMS == 1 && TILE_K == 32, "as they multiply");

// Tiles of B lie in memory as the tensor cores read them (`pack.cu`), those of a part one after the other.
struct MoverB {
    static constexpr int FLOATS = TILE_N * TILE_K;
    static constexpr int OWN = FLOATS / 4 / THREADS;
    static_assert(OWN * 4 * THREADS == FLOATS, "a thread copies whole fours");

    const float* next;

    __device__ __forceinline__ void start(const Product& p, const Block& block, int) {
        const int tiles = (p.k + TILE_K - 1) / TILE_K;
        const int tile = block.first_n / TILE_N * tiles + block.first_k / TILE_K;
        next = p.b.values + block.replica * p.b.replica + (i64)tile * FLOATS + 4 * threadIdx.x;
    }

    __device__ __forceinline__ void look(int, int) {}

    __device__ __forceinline__ void issue(float* tile, int, int) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            copy_16<false>(tile + 4 * threadIdx.x + i * 4 * THREADS, next + i * 4 * THREADS);
        }
        next += FLOATS;
    }

    // What lies there was rounded.
    __device__ __forceinline__ static float column_sum(const float* tile, int column) {
        float sum = 0.f;
#pragma unroll
        for (int i = 0; i < TILE_K; i += 4) {
            float4 at = *reinterpret_cast<const float4*>(tile + packed_place(column, i));
            sum += at.x + at.y + at.z + at.w;
        }
        return sum;
    }
};

// The rows of a warp are read from shared memory while the eight terms before them are multiplied.
__device__ __forceinline__ void multiply_tile(float (&c)[M_FRAGMENTS][N_FRAGMENTS][4],
                                              const MoverA& mover, const MoverB&, const float* a,
                                              const float* b) {
    constexpr int STEPS = TILE_K / 8;
    u32 rows[2][M_FRAGMENTS][4];
    auto read = [&](int step) {
#pragma unroll
        for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                rows[step % 2][i][part] = tf32(mover.at(a, i, part % 2, 8 * step + part / 2 * 4));
            }
        }
    };
    read(0);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        begin_products();
#pragma unroll
        for (int i = 0; i < M_FRAGMENTS; ++i) multiply_group(c[i], rows[step % 2][i], b, 8 * step);
        end_products();
        if (step + 1 < STEPS) {
            wait_products<1>();
            read(step + 1);
        }
    }
    wait_products<0>();
}

#endif
