// The product kernel: product.cuh says what it computes, mover.cuh how tiles come to shared memory,
// single.cuh and grouped.cuh how they are multiplied, epilogue.cuh what becomes of the sums.

// Adds the terms of a block to its sums, and those of B to the thread's bias sum. `meanwhile` is called
// when the first tiles are on their way.
template <typename Meanwhile>
__device__ __forceinline__ void sum(const Product& p, const Block& block, float* shared,
                                    float (&c)[M_FRAGMENTS][N_FRAGMENTS][4], float& bias_sum,
                                    Meanwhile meanwhile) {
    float *tiles_b = shared, *tiles_a = shared + STAGES * MoverB::FLOATS;
    const int warp_k = threadIdx.x / 32 % WARPS_K;
    MoverA a;
    MoverB b;
    a.start(p, block, 8 * warp_k, tiles_a);
    b.start(p, block, 8 * warp_k, tiles_b);
    a.begin(block);
    b.begin(block);
    auto issue = [&](int tile, int slot) {
        if (tile < block.tiles) {
            int k = block.first_k + tile * TILE_K;
            a.issue(slot, k, block.end_k);
            b.issue(slot, k, block.end_k);
        }
        end_copies();
    };
#pragma unroll
    for (int tile = 0; tile < UNDER_WAY; ++tile) issue(tile, tile);
    meanwhile();
    int slot = 0, free = UNDER_WAY;
    auto add = [&](int tile, Stretch& stretch) {
        a.wait();
        b.show();
        __syncthreads();
        a.enter(tile, block.tiles);
        const float *tile_a = a.tile(slot), *tile_b = b.tile(slot);
        issue(tile + UNDER_WAY, free);
        stretch.read(a, tile_a);
        b.wait(slot, tile);
        stretch.multiply(c, a, tile_a, b, tile_b);
        if (block.sums_bias) bias_sum += column_sum(tile_b, threadIdx.x);
        free = free + 1 == STAGES ? 0 : free + 1;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        a.leave();
    };
#if OVERLAP
    // In turn: what is being multiplied is not written to.
    Stretch even, odd;
    int tile = 0;
    for (; tile + 2 <= block.tiles; tile += 2) {
        add(tile, even);
        add(tile + 1, odd);
    }
    if (tile < block.tiles) add(tile, even);
    finish_products<0>();
#else
    Stretch stretch;
    for (int tile = 0; tile < block.tiles; ++tile) add(tile, stretch);
#endif
}

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

extern "C" __global__ void __launch_bounds__(THREADS, TOGETHER)
product(const __grid_constant__ Product p) {
    const int replica = blockIdx.z;
    if (!p.replicas[replica].active) return;
    extern __shared__ __align__(1024) float shared[];

    Block block;
    block.replica = replica;
    block.first_m = blockIdx.x * TILE_M;
    block.first_n = blockIdx.y / p.parts * TILE_N;
    const int part = blockIdx.y % p.parts;
    block.first_k = part * p.k_per_part;
    block.end_k = min(p.k, block.first_k + p.k_per_part);
    const int terms = max(block.end_k - block.first_k, 0);
    block.tiles = (terms + TILE_K - 1) / TILE_K;
    const int warp = threadIdx.x / 32 / WARPS_K;
    block.warp_m = warp / WARPS_N * WARP_M;
    block.warp_n = warp % WARPS_N * WARP_N;
    block.sums_bias = (EPILOGUE == DESCEND || EPILOGUE == PARTIAL) && p.bias_row >= 0 &&
                      blockIdx.x == 0 && threadIdx.x < TILE_N;
    const int first_m = block.first_m, first_n = block.first_n;

    float* out = p.c + replica * p.c_replica + (EPILOGUE == PARTIAL ? part * p.part : 0);
    Sink sink{p, replica, out, p.replicas[replica].learning_rate};
    float c[M_FRAGMENTS][N_FRAGMENTS][4] = {};
    float bias_sum = 0.f;
#if EPILOGUE == DESCEND
    Weights weights;
    sum(p, block, shared, c, bias_sum, [&] {
        weights.read(sink, first_m, first_n);
        weights.fetch_ahead(p);
    });
#else
    sum(p, block, shared, c, bias_sum, [] {});
#endif

#if B_PACKED
    put(sink, Own{c, block.warp_m}, first_m, first_n);
#else
    wait_all_copies();
    __syncthreads();
#if WARPS_K > 1
    const int warp_k = threadIdx.x / 32 % WARPS_K;
    add_warps(c, shared, warp, warp_k);
    __syncthreads();
    if (warp_k == 0)
#endif
        spread(shared, c, block.warp_m, block.warp_n);
    __syncthreads();
#if EPILOGUE == DESCEND
    weights.step(sink, Own{shared}, first_m, first_n);
#else
    put(sink, Own{shared}, first_m, first_n);
#endif
#endif
    int n = first_n + threadIdx.x;
    if (block.sums_bias && n < p.n) {
        int to = p.bias_row + n;
        if (EPILOGUE == PARTIAL) {
            out[to] = bias_sum;
        } else {
            float* velocity = sink.velocities();
            descend(out[to], velocity[to], p.scale * bias_sum, sink.learning_rate, p.descent);
        }
    }
}
