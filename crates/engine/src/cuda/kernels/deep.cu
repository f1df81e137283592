// A network with two or three hidden layers, trained for many steps without leaving the chip.
//
// As in `resident.cu`, a cluster of CLUSTER blocks trains one replica and each block owns UNITS units,
// here of every hidden layer. Of a layer behind the first a block needs all units of the layer
// before: it reads those that others own out of their shared memory. Backwards each block finds, for
// all units of the layer before, what its own units add to their gradients, and leaves it for
// their owners to sum up, each in an order of its own that never changes.
// `deep.cuh` says what a block keeps, and where.

// What a lane reads from afar for 16 inputs: velocities by 16 units and the two units, and, where rows
// are few, activations of the layer before.
struct Fetched {
    float4 v[2 * TILES];
    float4 y[ROWS / 8];
};

struct Trainer : Part {
    using Part::Part;

    // The lane's part of 16 inputs in 8 rows, for the forward product: inputs 4t to 4t + 3 of row g.
    template <int LAYER>
    __device__ __forceinline__ void read_ahead(Factor (&y)[2][2], int step, int turn, int rows) const {
        if constexpr (LAYER == 0) {
            const unsigned char* at = &s.x[step % X_BUFFERS][8 * rows + g][16 * input_block(turn) + 4 * t];
            u32 word = *reinterpret_cast<const u32*>(at);
#pragma unroll
            for (int i = 0; i < 4; ++i) y[i / 2][i % 2] = input(word, i);
        } else {
            const int from = origin<LAYER>(turn);
            take(y, read_other(&s.activations[LAYER - 1].ahead[from % TILES][rows][lane], from / TILES));
        }
    }

    // The same of a layer before for the weights' gradient: of its units 4(g / 2) + g % 2 and that + 2,
    // rows t and t + 4.
    template <int LAYER>
    __device__ __forceinline__ float4 read_across(int turn, int rows) const {
        const int from = origin<LAYER>(turn);
        return read_other(&s.activations[LAYER - 1].across[from % TILES][rows][lane], from / TILES);
    }

    // And of the inputs.
    __device__ __forceinline__ void read_inputs_across(Factor (&y)[2][2], int step, int turn,
                                                       int rows) const {
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

    __device__ __forceinline__ float slope(int layer, int u, int row) {
        return whole(gradient(layer, u, row));
    }

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
                const float(&sum)[4] = c[row];
                s.partial[origin<LAYER>(turn)][row][lane] = make_float4(sum[0], sum[1], sum[2], sum[3]);
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
            for (int next = 0; next < CLUSTER; ++next) {
                const int other = block + next < CLUSTER ? block + next : block + next - CLUSTER;
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
        if constexpr (LAYER > 0 && FEW_ROWS) {
#pragma unroll
            for (int rows = 0; rows < ROWS / 8; ++rows) to.y[rows] = read_across<LAYER>(turn, rows);
        }
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
