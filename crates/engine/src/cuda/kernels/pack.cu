// Tiles of B as warps that multiply together want them: rounded, the terms of a column one after the other,
// in the order that `packed_place` and `packed_column` say, zeros where there are no terms or columns.
//
// A block packs TILES of them, one after the other: memory answers late, so what it reads should be much.
// TILE_N, B_INNER and B_VECTOR are those of the product.

#define PACKERS 256
#define PACKED_TERMS 32

struct Pack {
    Operand b;
    float* to;
    i64 to_replica;
    const Replica* replicas;
    int n, k;
};

// From its first, second, third or fourth on.
__device__ __forceinline__ float4 turned_by(float4 a, int first) {
    if (first & 1) a = make_float4(a.y, a.z, a.w, a.x);
    if (first & 2) a = make_float4(a.z, a.w, a.x, a.y);
    return a;
}

extern "C" __global__ void __launch_bounds__(PACKERS) pack(const __grid_constant__ Pack p) {
    constexpr int FOURS = TILE_N * PACKED_TERMS / 4, OWN = TILES * FOURS / PACKERS;
    const int replica = blockIdx.z;
    if (!p.replicas[replica].active) return;
    const int first_k = blockIdx.x * TILES * PACKED_TERMS, first_n = blockIdx.y * TILE_N;
    const float* values = p.b.values + replica * p.b.replica;
    const int tiles = (p.k + PACKED_TERMS - 1) / PACKED_TERMS, first = blockIdx.x * TILES;
    const i64 tile = (i64)blockIdx.y * tiles + first;
    float* to = p.to + replica * p.to_replica + tile * (TILE_N * PACKED_TERMS);
    auto value_at = [&](int n, int k) {
        bool inside = n < p.n && k < p.k;
        return inside ? __ldg(values + __ldg(p.b.x + n) + __ldg(p.b.k + k)) : 0.f;
    };
    auto four_at = [&](int n, int k) {
        if (n >= p.n || k >= p.k) return make_float4(0.f, 0.f, 0.f, 0.f);
        const float* from = values + __ldg(p.b.x + n) + __ldg(p.b.k + k);
        return __ldg(reinterpret_cast<const float4*>(from));
    };
#if B_INNER == X_INNER
    // Read along the columns, written along the terms.
    __shared__ float turned[TILES * PACKED_TERMS][TILE_N + 1];
#if B_VECTOR == 4
    float4 fours[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int at = threadIdx.x + i * PACKERS, k = at / (TILE_N / 4), n = at % (TILE_N / 4) * 4;
        fours[i] = four_at(first_n + n, first_k + k);
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        // In turn, beginning with another of the four every eight lanes: into different banks.
        const int at = threadIdx.x + i * PACKERS, k = at / (TILE_N / 4), n = at % (TILE_N / 4) * 4;
        const int turn = at / 8 - k & 3;
        const float4 value = turned_by(fours[i], turn);
        turned[k][n + turn] = value.x;
        turned[k][n + (turn + 1 & 3)] = value.y;
        turned[k][n + (turn + 2 & 3)] = value.z;
        turned[k][n + (turn + 3 & 3)] = value.w;
    }
#else
#pragma unroll
    for (int i = 0; i < 4 * OWN; ++i) {
        const int at = threadIdx.x + i * PACKERS;
        turned[at / TILE_N][at % TILE_N] = value_at(first_n + at % TILE_N, first_k + at / TILE_N);
    }
#endif
    __syncthreads();
#endif
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        // The four that comes to lie here.
        const int at = threadIdx.x + i * PACKERS, own = at / FOURS, place = at % FOURS / 8;
        const int column = unpacked_column(place), k = own * PACKED_TERMS + 4 * (at % 8 ^ place % 8);
        if (first + own >= tiles) break;
        float4 value;
#if B_INNER == X_INNER
        value = make_float4(turned[k][column], turned[k + 1][column], turned[k + 2][column],
                            turned[k + 3][column]);
#elif B_VECTOR == 4
        value = four_at(first_n + column, first_k + k);
#else
        const int n = first_n + column;
        value = make_float4(value_at(n, first_k + k), value_at(n, first_k + k + 1),
                            value_at(n, first_k + k + 2), value_at(n, first_k + k + 3));
#endif
        four(to + 4 * at) = rounded(value);
    }
}
