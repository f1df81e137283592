// A network with two or three hidden layers, trained for many steps without leaving the chip.
//
// As in `resident.cu`, a cluster of CLUSTER blocks trains one replica and each block owns UNITS units,
// here of every hidden layer. Of a layer behind the first a block needs all units of the layer
// before: it reads those that others own out of their shared memory. Backwards each block finds, for
// all units of the layer before, what its own units add to their gradients, and leaves it for
// their owners to sum up, block after block.
//
// Inputs of a layer are counted in blocks of 16, which the warps take in turn. A warp alone uses the
// weights of its inputs, for all units of the block; with g = lane / 4 and t = lane % 4, a lane
// owns, of every 16 × 16 of them, the units g and g + 8 at the inputs 4t to 4t + 3. So weights of the
// first layer, which nothing goes back through, can stay in registers where shared memory is
// short: all but FIRST_SHARED turns of a warp. Velocities stay in registers, or, of the layers in
// the mask FAR_LAYERS, in the second-level cache, each lane's side by side.

#define TILES (UNITS / 16)         // of 16 units
#define BLOCKS_H (CLUSTER * TILES)  // of 16 units in all blocks
#define TURNS_K ((BLOCKS_K + WARPS - 1) / WARPS)
#define TURNS_H ((BLOCKS_H + WARPS - 1) / WARPS)
#define FEW_ROWS (ROWS <= 16)
#define FIRST_BLOCKS (FIRST_SHARED * WARPS < BLOCKS_K ? FIRST_SHARED * WARPS : BLOCKS_K)
#define FIRST_HELD (TURNS_K - FIRST_SHARED)  // turns in registers

static_assert(LAYERS >= 2 && LAYERS <= 3 && FIRST_SHARED <= TURNS_K, "shape");

// A layer's units of this block, as factors of the next layer's products: for every 16 units and
// 8 rows, what a lane needs of them.
struct Activations {
    float4 ahead[TILES][ROWS / 8][32];   // forward: units 4t to 4t + 3 of row g
    float4 across[TILES][ROWS / 8][32];  // for gradients: see `keep`
};

struct Shared : Ends {
    alignas(16) float w[LAYERS - 1][BLOCKS_H][TILES][256];
    union {
        alignas(16) float sums[WARPS][TILES][GROUP / 8][32][4];
        alignas(16) float4 partial[BLOCKS_H][GROUP / 8][32];  // this block's part of ∂loss/∂y
    };
    Activations activations[LAYERS - 1];
    // ∂loss/∂(W·y + b), as factors: of a layer and the one before, and to go back through W.
    alignas(16) Factor gradient[2][TILES][ROWS / 8][32][4];
    alignas(16) Factor back[TILES][ROWS / 8][32][4];
};

// What a lane reads from afar for 16 inputs: velocities by 16 units and the two units, and, where rows
// are few, activations of the layer before.
struct Fetched {
    float4 v[2 * TILES];
    float4 y[ROWS / 8];
};

static_assert(sizeof(Shared) % 16 == 0, "weights of the first layer follow");
static_assert(sizeof(Shared) + 1024 * TILES * FIRST_BLOCKS <= SHARED, "shared memory");

constexpr int blocks_of(int layer) { return layer == 0 ? BLOCKS_K : BLOCKS_H; }
constexpr int turns_of(int layer) { return layer == 0 ? TURNS_K : TURNS_H; }
constexpr bool is_far(int layer) { return FAR_LAYERS >> layer & 1; }

// Where a layer's velocities begin in a block's far ones, in lanes' fours.
constexpr i64 far_start(int layer) {
    return layer == 0 ? 0 : far_start(layer - 1) + is_far(layer - 1) * blocks_of(layer - 1) * TILES * 64;
}

struct Trainer : EndsTrainer {
    Shared& s;
    const int warp;
    float4* const first;  // weights of the first layer in shared memory
    float4* const far;    // this block's, from the lane's first on
    // Of the lane's weights: by turn, 16 units, the two units.
    float4 held[FIRST_HELD > 0 ? FIRST_HELD : 1][TILES][2];
    float4 first_velocity[TURNS_K][TILES][2];
    float4 velocity[LAYERS - 1][TURNS_H][TILES][2];

    __device__ Trainer(const Resident& p, Shared& s, int replica, int block)
        : EndsTrainer(p, s, replica, block),
          s(s),
          warp(threadIdx.x / 32),
          first(reinterpret_cast<float4*>(memory + sizeof(Shared)) + threadIdx.x % 32),
          far(reinterpret_cast<float4*>(p.far) + (replica * CLUSTER + block) * far_start(LAYERS) +
              threadIdx.x % 32) {}

    // The warp's blocks of 16 inputs, and whether there is one.
    __device__ __forceinline__ int input_block(int turn) const { return turn * WARPS + warp; }
    template <int LAYER>
    __device__ __forceinline__ bool there(int turn) const {
        return (turn + 1) * WARPS <= blocks_of(LAYER) || input_block(turn) < blocks_of(LAYER);
    }

    // Where a weight lies among 16 × 16: without bank conflicts by unit and by input.
    __device__ __forceinline__ static int place_in_tile(int u, int input) {
        return u * 16 + (input ^ (u & 2) << 2);
    }

    // The lane's 4 weights of one of its units.
    template <int LAYER>
    __device__ __forceinline__ float4& own(int turn, int tile, int row) {
        if (LAYER > 0) {
            float* weights = s.w[LAYER - (LAYER > 0)][input_block(turn)][tile];
            return *reinterpret_cast<float4*>(weights + place_in_tile(8 * row + g, 4 * t));
        }
        if (turn < FIRST_SHARED) return first[((input_block(turn) * TILES + tile) * 2 + row) * 32];
        return held[turn - FIRST_SHARED][tile][row];
    }

    // Their velocities, as far as they stay in registers, and where they lie otherwise.
    template <int LAYER>
    __device__ __forceinline__ float4& near_velocity(int turn, int tile, int row) {
        return LAYER == 0 ? first_velocity[turn][tile][row]
                          : velocity[LAYER - (LAYER > 0)][turn][tile][row];
    }
    template <int LAYER>
    __device__ __forceinline__ float4* far_velocity(int turn, int tile, int row) const {
        return far + far_start(LAYER) + ((input_block(turn) * TILES + tile) * 2 + row) * 32;
    }
    template <int LAYER>
    __device__ __forceinline__ float4 read_velocity(int turn, int tile, int row) {
        return is_far(LAYER) ? __ldcg(far_velocity<LAYER>(turn, tile, row))
                             : near_velocity<LAYER>(turn, tile, row);
    }
    template <int LAYER>
    __device__ __forceinline__ void write_velocity(int turn, int tile, int row, float4 v) {
        if (is_far(LAYER)) {
            __stcg(far_velocity<LAYER>(turn, tile, row), v);
        } else {
            near_velocity<LAYER>(turn, tile, row) = v;
        }
    }

    // Visits each weight of the lane in the replica's memory.
    template <int LAYER, typename Visit>
    __device__ __forceinline__ void each_own(Visit visit) {
        const Dense& dense = p.layers[LAYER];
        const int inputs = LAYER == 0 ? INPUTS : p.layers[LAYER - (LAYER > 0)].columns;
#pragma unroll
        for (int turn = 0; turn < turns_of(LAYER); ++turn) {
            if (!there<LAYER>(turn)) continue;
#pragma unroll
            for (int at = 0; at < 2 * TILES; ++at) {
                float4 &w = own<LAYER>(turn, at / 2, at % 2), v = read_velocity<LAYER>(turn, at / 2, at % 2);
                const int column = block * UNITS + 8 * at + g, input = 16 * input_block(turn) + 4 * t;
                auto one = [&](float& weight, float& velocity, int row) {
                    visit(weight, velocity, dense.weight + (i64)row * dense.columns + column,
                          column < dense.columns && row < inputs);
                };
                one(w.x, v.x, input);
                one(w.y, v.y, input + 1);
                one(w.z, v.z, input + 2);
                one(w.w, v.w, input + 3);
                write_velocity<LAYER>(turn, at / 2, at % 2, v);
            }
        }
        if constexpr (LAYER + 1 < LAYERS) each_own<LAYER + 1>(visit);
    }

    __device__ void load() {
        const i64 start = replica * p.weights_replica;
        Load visit{p.weights + start, p.velocity + start};
        each_own<0>(visit);
        each_rest(visit, true);
        clear();
    }

    __device__ void store() {
        const i64 start = replica * p.weights_replica;
        Store visit{p.weights + start, p.velocity + start};
        each_own<0>(visit);
        each_rest(visit, block == 0);
    }

    // The lane's part of 16 inputs in 8 rows, for the forward product: inputs 4t to 4t + 3 of row g.
    template <int LAYER>
    __device__ __forceinline__ void read_ahead(Factor (&y)[2][2], int step, int turn, int rows) const {
        if constexpr (LAYER == 0) {
            const unsigned char* at = &s.x[step % X_BUFFERS][8 * rows + g][16 * input_block(turn) + 4 * t];
            u32 word = *reinterpret_cast<const u32*>(at);
#pragma unroll
            for (int i = 0; i < 4; ++i) y[i / 2][i % 2] = input(word, i);
        } else {
            const int from = input_block(turn);
            take(y, read_other(&s.activations[LAYER - 1].ahead[from % TILES][rows][lane], from / TILES));
        }
    }

    // The same of a layer before for the weights' gradient: of its units 4(g / 2) + g % 2 and that + 2,
    // rows t and t + 4.
    template <int LAYER>
    __device__ __forceinline__ float4 read_across(int turn, int rows) const {
        const int from = input_block(turn);
        const Activations& before = s.activations[LAYER - (LAYER > 0)];
        return read_other(&before.across[from % TILES][rows][lane], from / TILES);
    }

    // And of the inputs.
    __device__ __forceinline__ void read_inputs_across(Factor (&y)[2][2], int step, int turn, int rows) const {
        const int column = 16 * input_block(turn) + g / 2 * 4;
        const unsigned char* at = &s.x[step % X_BUFFERS][8 * rows + t][column];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            u32 word = *reinterpret_cast<const u32*>(at + 4 * i * STRIDE_X);
            y[0][i] = input(word, g % 2);
            y[1][i] = input(word, g % 2 + 2);
        }
    }

    __device__ __forceinline__ static void take(Factor (&y)[2][2], float4 from) {
        y[0][0] = factor(from.x);
        y[0][1] = factor(from.y);
        y[1][0] = factor(from.z);
        y[1][1] = factor(from.w);
    }

    // Keeps an activation for the products of the layer behind.
    __device__ __forceinline__ void keep(int layer, int u, int row, float y) {
        // A NaN does not survive as a factor, an infinity does.
        if (y != y) y = __uint_as_float(0x7f800000u);
        Activations& to = s.activations[layer];
        const int tile = u / 16, four = u % 16 / 4;
        reinterpret_cast<float*>(&to.ahead[tile][row / 8][row % 8 * 4 + four])[u % 4] = y;
        const int other = (2 * four + u % 2) * 4 + row % 4;
        reinterpret_cast<float*>(&to.across[tile][row / 8][other])[u % 4 / 2 * 2 + row % 8 / 4] = y;
    }

    __device__ __forceinline__ float kept(int layer, int u, int row) const {
        const float4* at = &s.activations[layer].ahead[u / 16][row / 8][row % 8 * 4 + u % 16 / 4];
        return reinterpret_cast<const float*>(at)[u % 4];
    }

    // The warp's part of W·y for GROUP rows: c (16 units, 8 rows).
    template <int LAYER>
    __device__ __forceinline__ void multiply_inputs(float (&c)[TILES][GROUP / 8][4], int step, int first) {
#pragma unroll
        for (int turn = 0; turn < turns_of(LAYER); ++turn) {
            if (!there<LAYER>(turn)) continue;
            Factor y[GROUP / 8][2][2];
#pragma unroll
            for (int row = 0; row < GROUP / 8; ++row) read_ahead<LAYER>(y[row], step, turn, first / 8 + row);
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
                float4 low = own<LAYER>(turn, tile, 0), high = own<LAYER>(turn, tile, 1);
                Factor even[4] = {factor(low.x), factor(high.x), factor(low.y), factor(high.y)};
                Factor odd[4] = {factor(low.z), factor(high.z), factor(low.w), factor(high.w)};
#pragma unroll
                for (int row = 0; row < GROUP / 8; ++row) {
                    multiply(c[tile][row], even, y[row][0]);
                    multiply(c[tile][row], odd, y[row][1]);
                }
            }
        }
    }

    // y = max(0, s·(W·y + b)) of the layer's units, of the sums that warps left.
    template <int LAYER>
    __device__ __forceinline__ void finish_units(int first) {
        constexpr int PARTS = blocks_of(LAYER) < WARPS ? blocks_of(LAYER) : WARPS;
        for (int at = thread; at < UNITS * GROUP; at += THREADS) {
            const int i = at % 4, of = at / 4 % 32, rows = at / 128 % (GROUP / 8), tile = at / 16 / GROUP;
            const int u = 16 * tile + of / 4 + i / 2 * 8, row = first + 8 * rows + of % 4 * 2 + i % 2;
            float sum = s.rest.bias[LAYER][u];
#pragma unroll
            for (int part = 0; part < PARTS; ++part) sum += s.sums[part][tile][rows][of][i];
            float y = relu(p.layers[LAYER].scale * sum);
            if (LAYER == LAYERS - 1) {
                s.hidden[u][row] = y;
            } else {
                keep(LAYER, u, row, y);
            }
        }
    }

    template <int LAYER>
    __device__ __forceinline__ void forward(int step) {
#pragma unroll 1
        for (int first = 0; first < ROWS; first += GROUP) {
            float c[TILES][GROUP / 8][4] = {};
            multiply_inputs<LAYER>(c, step, first);
            // Until here others may read what this block left of the step before.
            if (LAYER == 0 && first == 0) wait_for_cluster();
            if (there<LAYER>(0)) {
#pragma unroll
                for (int at = 0; at < TILES * GROUP / 8; ++at) {
                    const int tile = at / (GROUP / 8), row = at % (GROUP / 8);
                    const float(&sum)[4] = c[tile][row];
                    *reinterpret_cast<float4*>(s.sums[warp][tile][row][lane]) =
                        make_float4(sum[0], sum[1], sum[2], sum[3]);
                }
            }
            __syncthreads();
            finish_units<LAYER>(first);
            if (GROUP < ROWS || LAYER == LAYERS - 1) __syncthreads();
        }
        if constexpr (LAYER + 1 < LAYERS) {
            meet_cluster();
            forward<LAYER + 1>(step);
        }
    }

    // ∂loss/∂(W·y + b) of a unit.
    __device__ __forceinline__ Factor& gradient(int layer, int u, int row) {
        return s.gradient[layer % 2][u / 16][row / 8][u % 8 * 4 + row % 4][u / 8 % 2 + row / 4 % 2 * 2];
    }

    // Of ∂loss/∂z it is the scale's part.
    __device__ __forceinline__ void put_gradient(int layer, int u, int row, float slope) {
        Factor f = factor(p.layers[layer].scale * slope);
        gradient(layer, u, row) = f;
        if (layer > 0) s.back[u / 16][row / 8][row % 8 * 4 + u % 4][u / 4 % 4] = f;
    }

    __device__ __forceinline__ float slope(int layer, int u, int row) { return whole(gradient(layer, u, row)); }

    __device__ __forceinline__ void back_to_last() {
        for (int at = thread; at < UNITS * ROWS; at += THREADS) {
            int u = at / ROWS, row = at % ROWS;
            put_gradient(LAYERS - 1, u, row, back_through_readout(u, row));
        }
    }

    // What this block's units add to ∂loss/∂y of all units of the layer before: Wᵀ·∂loss/∂z, c (16
    // units of that layer, 8 rows).
    template <int LAYER>
    __device__ __forceinline__ void multiply_back(int first) {
#pragma unroll
        for (int turn = 0; turn < TURNS_H; ++turn) {
            if (!there<LAYER>(turn)) continue;
            float c[GROUP / 8][4] = {};
#pragma unroll
            for (int half = 0; half < 2 * TILES; ++half) {
                const float* w = s.w[LAYER - 1][input_block(turn)][half / 2];
                Factor a[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    a[i] = factor(w[place_in_tile(half % 2 * 8 + i / 2 * 4 + t, i % 2 * 8 + g)]);
                }
#pragma unroll
                for (int row = 0; row < GROUP / 8; ++row) {
                    const Factor* b = &s.back[half / 2][first / 8 + row][lane][half % 2 * 2];
                    const Factor both[2] = {b[0], b[1]};
                    multiply(c[row], a, both);
                }
            }
#pragma unroll
            for (int row = 0; row < GROUP / 8; ++row) {
                s.partial[input_block(turn)][row][lane] = make_float4(c[row][0], c[row][1], c[row][2], c[row][3]);
            }
        }
    }

    // ∂loss/∂z of this block's units of the layer before, of what all blocks left.
    template <int LAYER>
    __device__ __forceinline__ void add_back(int first) {
        for (int at = thread; at < TILES * GROUP / 8 * 32; at += THREADS) {
            const int of = at % 32, rows = at / 32 % (GROUP / 8), tile = at / 4 / GROUP;
            float sum[4] = {};
#pragma unroll
            for (int other = 0; other < CLUSTER; ++other) {
                float4 part = read_other(&s.partial[block * TILES + tile][rows][of], other);
                sum[0] += part.x;
                sum[1] += part.y;
                sum[2] += part.z;
                sum[3] += part.w;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int u = 16 * tile + of / 4 + i / 2 * 8, row = first + 8 * rows + of % 4 * 2 + i % 2;
                put_gradient(LAYER - 1, u, row, pass_relu(sum[i], kept(LAYER - 1, u, row)));
            }
        }
    }

    __device__ __forceinline__ void step_bias(int layer) {
        if (p.layers[layer].bias < 0) return;
        Rest& r = s.rest;
        for (int u = thread; u < UNITS; u += THREADS) {
            float sum = 0.f;
#pragma unroll 8
            for (int row = 0; row < BATCH; ++row) sum += slope(layer, u, row);
            step_one(r.bias[layer][u], r.bias_velocity[layer][u], sum);
        }
    }

    // Reads what a turn of `step_own` needs from afar, if there is such a turn.
    template <int LAYER>
    __device__ __forceinline__ void fetch(Fetched& to, int turn) {
        if (turn >= turns_of(LAYER) || !there<LAYER>(turn)) return;
#pragma unroll
        for (int at = 0; at < 2 * TILES; ++at) to.v[at] = read_velocity<LAYER>(turn, at / 2, at % 2);
        if (LAYER == 0 || !FEW_ROWS) return;
#pragma unroll
        for (int rows = 0; rows < ROWS / 8; ++rows) to.y[rows] = read_across<LAYER>(turn, rows);
    }

    // Gradient of the lane's weights of one turn: by 16 units, inputs 4t and 4t + 1 or the next two.
    template <int LAYER>
    __device__ __forceinline__ void find_gradient(float (&c)[TILES][2][4], const Fetched& fetched, int step,
                                                  int turn) const {
#pragma unroll(FEW_ROWS ? ROWS / 8 : 2)
        for (int rows = 0; rows < ROWS / 8; ++rows) {
            Factor y[2][2];
            if constexpr (LAYER == 0) {
                read_inputs_across(y, step, turn, rows);
            } else {
                take(y, FEW_ROWS ? fetched.y[rows] : read_across<LAYER>(turn, rows));
            }
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
                Factor units[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) units[i] = s.gradient[LAYER % 2][tile][rows][lane][i];
                multiply(c[tile][0], units, y[0]);
                multiply(c[tile][1], units, y[1]);
            }
        }
    }

    // Gradient and step of the lane's weights; `fetched` for the first turn.
    template <int LAYER>
    __device__ __forceinline__ void step_own(int step, Fetched fetched) {
#pragma unroll
        for (int turn = 0; turn < turns_of(LAYER); ++turn) {
            if (!there<LAYER>(turn)) continue;
            float c[TILES][2][4] = {};
            find_gradient<LAYER>(c, fetched, step, turn);
            // Before the stores, which the compiler lets no load pass.
            Fetched next;
            fetch<LAYER>(next, turn + 1);
#pragma unroll
            for (int at = 0; at < 2 * TILES; ++at) {
                const float(&slope)[2][4] = c[at / 2];
                const int i = at % 2 * 2;
                float4 w = own<LAYER>(turn, at / 2, at % 2), v = fetched.v[at];
                step_one(w.x, v.x, slope[0][i]);
                step_one(w.y, v.y, slope[0][i + 1]);
                step_one(w.z, v.z, slope[1][i]);
                step_one(w.w, v.w, slope[1][i + 1]);
                own<LAYER>(turn, at / 2, at % 2) = w;
                write_velocity<LAYER>(turn, at / 2, at % 2, v);
            }
            fetched = next;
        }
    }

    // From ∂loss/∂z of a layer to that of the one before, and the step of the weights between.
    template <int LAYER>
    __device__ __forceinline__ void backward(int step, double& loss_sum) {
#pragma unroll 1
        for (int first = 0; first < ROWS; first += GROUP) {
            // Others have read the rows before.
            if (first > 0) meet_cluster();
            multiply_back<LAYER>(first);
            arrive_at_cluster();
            if (first == 0 && LAYER == LAYERS - 1) {
                step_rest([&](int u, int row) { return slope(LAYERS - 1, u, row); });
                note_loss(loss_sum, step);
            } else if (first == 0) {
                step_bias(LAYER);
            }
            wait_for_cluster();
            add_back<LAYER>(first);
        }
        Fetched fetched;
        fetch<LAYER>(fetched, 0);
        if constexpr (LAYER > 1) {
            arrive_at_cluster();
            step_own<LAYER>(step, fetched);
            wait_for_cluster();
            backward<LAYER - 1>(step, loss_sum);
        } else {
            step_own<1>(step, fetched);
            fetch<0>(fetched, 0);
            __syncthreads();
            arrive_at_cluster();
            step_bias(0);
            step_own<0>(step, fetched);
        }
    }

    __device__ void run() {
        double loss_sum = 0.;
        load();
        keep_pick(0, read_pick(0));
        keep_pick(1, read_pick(1));
        __syncthreads();
        copy_inputs(0);
        arrive_at_cluster();
        int step = 0;
#pragma unroll 1
        for (; step < p.steps; ++step) {
            if (s.diverged) break;
            wait_copies<0>();
            __syncthreads();
            if (X_BUFFERS > 1) copy_inputs(step + 1);
            Pick later = read_pick(step + 2);
            forward<0>(step);
            add_logits(step);
            meet_cluster();
            take_softmax(step);
            __syncthreads();
            back_to_last();
            __syncthreads();
            backward<LAYERS - 1>(step, loss_sum);
            keep_pick(step, later);
            if (X_BUFFERS == 1) {
                __syncthreads();
                copy_inputs(step + 1);
            }
        }
        wait_for_cluster();
        wait_copies<0>();
        store();
        meet_cluster();
        finish(loss_sum, step);
    }
};

// Blocks: (CLUSTER · replicas).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
#if CLUSTER > 1
    __cluster_dims__(CLUSTER, 1, 1)
#endif
        train_deep(const __grid_constant__ Resident p) {
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int replica = blockIdx.x / CLUSTER;
    if (!p.replicas[replica].active) return;
    Trainer(p, shared, replica, blockIdx.x % CLUSTER).run();
}
