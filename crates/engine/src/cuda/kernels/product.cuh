// The product behind every dense layer and convolution, forward and backward:
//
//     C[m,n] = Σ_k A[m,k]·B[k,n]     for every replica (blockIdx.z)
//
// An element lies at the sum of two table entries, A[m,k] at a.x[m] + a.k[k] and B[k,n] at
// b.x[n] + b.k[k]. With tables a convolution is a product without an im2col copy: the planes
// have borders of zeros, so no address leaves them. Along its inner direction an operand is
// contiguous by fours (VECTOR 4) or not at all (VECTOR 1). Of matrices, whose tables are even, it is
// computed where an element lies: a table that must be asked first makes every copy wait for memory twice.
//
// Compiled once per variant, from these macros:
//   TILE_M TILE_N TILE_K  what a block computes at a time
//   WARPS_M WARPS_N       how its warps share the tile,
//   WARPS_K               and the terms of its sums
//   GROUPED               1: warps multiply by fours, and the tensor cores read B by themselves
//   B_PACKED              1: B lies in memory as they read it
//   OVERLAP               1: a stretch is read while the one before is multiplied
//   STAGES                tiles in shared memory: on their way, or multiplied
//   TAIL                  1: the last tile of a sum is not whole
//   TOGETHER              blocks of a multiprocessor that registers should allow
//   A_INNER B_INNER       0: contiguous along k, 1: contiguous along m or n
//   A_VECTOR B_VECTOR     floats per copy, 4 or 1
//   A_MATRIX B_MATRIX C_MATRIX  1: a matrix
//   A_SEGMENT B_SEGMENT   0, or how the rows of all tiles lie alike,
//   A_STEADY B_STEADY     1: and the tiles at even distances,
//   A_STEP B_STEP A_JUMP B_JUMP  see `Mover`
//   HALO PIXEL TAPS       0, or pixels of A that a tile reads, each so many floats long, through so
//                         many taps of a filter
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
#define UNDER_WAY (STAGES - 1 - OVERLAP)  // tiles that are on their way while one is read
#define M_FRAGMENTS (WARP_M / 16)
#define N_FRAGMENTS (WARP_N / 8)

struct Operand {
    const float* values;
    i64 replica;
    const int* x;
    const int* k;
    int x_step, k_step;  // of a matrix
    // STEADY: floats from one tile to the next, and after every few of them.
    int tile_step, tile_jump, few;
    u32 pad;
};

// Where what a table lists by number lies; EVEN: so many floats apart.
template <bool EVEN>
__device__ __forceinline__ int entry(const int* table, int number, int step) {
    return EVEN ? number * step : __ldg(table + number);
}

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
    int halo_end, halo_first;
    int m, n, k;
    int parts, k_per_part;
    // DESCEND, PARTIAL: where Σ_k B[k,n] goes in C, the bias gradient; negative if nowhere.
    int bias_row;
    float scale;
    u32 relu;
    u32 add;
    Descent descent;
    u32 rounds;  // to what products take
    // DESCEND: by how many blocks weights are fetched ahead.
    u32 ahead;
    int c_step;  // of a matrix, from row to row
};

// Where term k of a column lies in a tile of 32 terms that is packed for the tensor cores to read.
__device__ __forceinline__ int packed_place(int column, int k) {
    return column * 32 + ((k / 4) ^ column % 8) * 4 + k % 4;
}

// Where a column lies in such a tile: the tensor cores leave two neighbours of every eight with a thread, which
// so has four neighbours of sixteen.
__device__ __forceinline__ int packed_column(int n) {
    return (n & ~15) + n / 2 % 2 * 8 + n / 4 % 4 * 2 + n % 2;
}

// The column that lies there.
__device__ __forceinline__ int unpacked_column(int place) {
    return (place & ~15) + place / 2 % 4 * 4 + place / 8 % 2 * 2 + place % 2;
}

// What a block computes.
struct Block {
    int replica;
    int first_m, first_n, first_k, end_k;
    int tiles;           // of the sum
    int warp_m, warp_n;  // where the warp's rows and columns begin in the tile
    bool sums_bias;      // of the column that has the thread's number
};
