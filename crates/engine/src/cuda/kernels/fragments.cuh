// The sums of a product, on the tensor cores.

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
