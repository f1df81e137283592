// The product kernel: product.cuh says what it computes, mover.cuh, fragments.cuh and epilogue.cuh
// hold its parts.

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

#if HALO > 0
__device__ __forceinline__ void swap(float*& one, float*& other) {
    float* kept = one;
    one = other;
    other = kept;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, TOGETHER)
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
    a.start(p, replica, first_m, warp_m, 8 * warp_k);
    b.start(p.b, replica, first_n, p.n, warp_n, 8 * warp_k);
#if HALO == 0
    a.look(first_k, end_k);
#endif
    b.look(first_k, end_k);
#if HALO > 0
    a.copy_channels(tiles_a);
#endif
    auto issue = [&](int tile, int slot) {
        if (tile < tiles) {
            int k = first_k + tile * TILE_K;
#if HALO == 0
            a.issue(tiles_a + slot * MoverA::FLOATS, k, end_k);
            a.look(k + TILE_K, end_k);
#endif
            b.issue(tiles_b + slot * MoverB::FLOATS, k, end_k);
            b.look(k + TILE_K, end_k);
        }
        end_copies();
    };
#pragma unroll
    for (int tile = 0; tile < STAGES - 1; ++tile) issue(tile, tile);

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
    int slot = 0, free = STAGES - 1;
#if HALO > 0
    float *tile_a = tiles_a, *other_a = tiles_a + MoverA::FLOATS;
#endif
    for (int tile = 0; tile < tiles; ++tile) {
        wait_copies<STAGES - 2>();
        __syncthreads();
#if HALO > 0
        // All warps are through with the channels before these.
        if (a.tap == 0 && tile + TAPS < tiles) a.copy_channels(other_a);
#else
        const float* tile_a = tiles_a + slot * MoverA::FLOATS;
#endif
        issue(tile + STAGES - 1, free);
        const float* tile_b = tiles_b + slot * MoverB::FLOATS;
        multiply_tile(c, a, b, tile_a, tile_b);
        if (sums_bias && threadIdx.x < TILE_N) {
#pragma unroll 8
            for (int k = 0; k < TILE_K; ++k) bias_sum += tile_b[MoverB::place(threadIdx.x, k)];
        }
        free = slot;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
#if HALO > 0
        a.pass_on();
        if (a.tap == 0) swap(tile_a, other_a);
#endif
    }

#if WARPS_K > 1
    wait_all_copies();
    __syncthreads();
    add_warps(c, shared, warp, warp_k);
    if (warp_k > 0) return;
#endif
#if C_INNER == 1
    wait_all_copies();
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
