// A network with one hidden layer, trained for many steps without leaving the chip.
//
// A step of a small network moves far more bytes than it multiplies numbers: weights and
// velocities come from memory and go back. Here a cluster of CLUSTER blocks trains one replica:
// each block owns UNITS hidden units, keeps their weights in shared memory and the velocities
// of those weights in registers, and meets the others once a step, to add up the logits. Every
// block then computes the loss for itself.
//
// Warps share a block's W (UNITS, INPUTS) as U_WARPS × K_WARPS tiles. With g = lane / 4 and
// t = lane % 4, a lane owns, of every 16 × 16 weights, the units g and g + 8 at the inputs 4t to
// 4t + 3. That is a factor of the forward product as the tensor cores want it, and, with the
// inputs taken in the right order, also where they leave the weight's gradient.

#define STEPS_K ((BLOCKS_K + K_WARPS - 1) / K_WARPS)  // of a warp
#define TILES_U (UNITS / 16 / U_WARPS)                // of a warp, 16 units each
#define STRIDE_W (INPUTS % 32 == 16 ? INPUTS : INPUTS + 16)

static_assert(UNITS % (16 * U_WARPS) == 0 && WARPS == U_WARPS * K_WARPS && LAYERS == 1, "shape");

struct Shared : Ends {
    alignas(16) float w[UNITS][STRIDE_W];
    union {
        alignas(16) float sums[K_WARPS][UNITS][GROUP];
        alignas(16) Factor gradient[UNITS / 16][ROWS / 8][32][4];  // ∂loss/∂z, as factors of 16 × 8
    };
};

static_assert(sizeof(Shared) <= SHARED, "shared memory");

struct Trainer : EndsTrainer {
    Shared& s;
    const int warp_k, unit;  // unit: the warp's first
    // Of the lane's weights: by 16 inputs, 16 units, the two units, their 4 inputs.
    float v[STEPS_K][TILES_U][2][4];

    __device__ Trainer(const Resident& p, Shared& s, int replica, int block)
        : EndsTrainer(p, s, replica, block),
          s(s),
          warp_k(threadIdx.x / 32 % K_WARPS),
          unit(threadIdx.x / 32 / K_WARPS * 16 * TILES_U) {}

    // The warp's blocks of 16 inputs that there are.
    __device__ __forceinline__ int column(int k) const { return 16 * (warp_k * STEPS_K + k); }
    __device__ __forceinline__ bool there(int k) const { return column(k) < INPUTS; }

    // The lane's 4 weights of one of its units.
    __device__ __forceinline__ float4& own(int k, int tile, int row) {
        float* at = &s.w[unit + 16 * tile + 8 * row + g][column(k) + 4 * t];
        return *reinterpret_cast<float4*>(at);
    }

    // ∂loss/∂z of a unit.
    __device__ __forceinline__ Factor& gradient(int u, int row) {
        return s.gradient[u / 16][row / 8][u % 8 * 4 + row % 4][u / 8 % 2 + row / 4 % 2 * 2];
    }

    // Visits each weight of the lane in the replica's memory.
    template <typename Visit>
    __device__ __forceinline__ void each_own(Visit visit) {
        const Dense& dense = p.layers[0];
#pragma unroll
        for (int k = 0; k < STEPS_K; ++k) {
#pragma unroll
            for (int tile = 0; tile < TILES_U; ++tile) {
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    int column_w = block * UNITS + unit + 16 * tile + 8 * row + g;
                    if (!there(k)) continue;
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        i64 at = dense.weight + (i64)(column(k) + 4 * t + i) * dense.columns + column_w;
                        float* w = &s.w[unit + 16 * tile + 8 * row + g][column(k) + 4 * t + i];
                        visit(*w, v[k][tile][row][i], at, column_w < dense.columns);
                    }
                }
            }
        }
    }

    __device__ void load() {
        load_with([&](auto visit) { each_own(visit); });
    }

    __device__ void store() {
        store_with([&](auto visit) { each_own(visit); });
    }

    // The lane's part of W·x for GROUP rows: c (16 units, 8 rows).
    __device__ __forceinline__ void multiply_inputs(float (&c)[TILES_U][GROUP / 8][4], int step,
                                                    int first) {
#pragma unroll
        for (int k = 0; k < STEPS_K; ++k) {
            if (!there(k)) continue;
            u32 words[GROUP / 8];
#pragma unroll
            for (int row = 0; row < GROUP / 8; ++row) {
                const unsigned char* at = &s.x[step % X_BUFFERS][first + 8 * row + g][column(k) + 4 * t];
                words[row] = *reinterpret_cast<const u32*>(at);
            }
#pragma unroll
            for (int tile = 0; tile < TILES_U; ++tile) {
                float4 low = own(k, tile, 0), high = own(k, tile, 1);
                Factor even[4] = {factor(low.x), factor(high.x), factor(low.y), factor(high.y)};
                Factor odd[4] = {factor(low.z), factor(high.z), factor(low.w), factor(high.w)};
#pragma unroll
                for (int row = 0; row < GROUP / 8; ++row) {
                    Factor x[2] = {input(words[row], 0), input(words[row], 1)};
                    Factor y[2] = {input(words[row], 2), input(words[row], 3)};
                    multiply(c[tile][row], even, x);
                    multiply(c[tile][row], odd, y);
                }
            }
        }
    }

    // hidden = max(0, s·(W·x + b)).
    __device__ __forceinline__ void forward(int step) {
#pragma unroll 1
        for (int first = 0; first < ROWS; first += GROUP) {
            float c[TILES_U][GROUP / 8][4] = {};
            multiply_inputs(c, step, first);
#pragma unroll
            for (int tile = 0; tile < TILES_U; ++tile) {
#pragma unroll
                for (int row = 0; row < GROUP / 8; ++row) {
                    float* low = &s.sums[warp_k][unit + 16 * tile + g][8 * row + 2 * t];
                    float* high = &s.sums[warp_k][unit + 16 * tile + g + 8][8 * row + 2 * t];
                    *reinterpret_cast<float2*>(low) = make_float2(c[tile][row][0], c[tile][row][1]);
                    *reinterpret_cast<float2*>(high) = make_float2(c[tile][row][2], c[tile][row][3]);
                }
            }
            __syncthreads();
            for (int at = thread; at < UNITS * GROUP; at += THREADS) {
                int u = at / GROUP, row = at % GROUP;
                float sum = s.rest.bias[0][u];
#pragma unroll
                for (int k = 0; k < K_WARPS; ++k) sum += s.sums[k][u][row];
                s.hidden[u][first + row] = relu(p.layers[0].scale * sum);
            }
            __syncthreads();
        }
    }

    __device__ __forceinline__ void back_to_hidden() {
        for (int at = thread; at < UNITS * ROWS; at += THREADS) {
            int u = at / ROWS, row = at % ROWS;
            gradient(u, row) = factor(back_through_readout(u, row));
        }
    }

    // The gradients of 16 units as factors.
    __device__ __forceinline__ void read_gradient(Factor (&units)[4], int tile, int rows) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) units[i] = s.gradient[unit / 16 + tile][rows][lane][i];
    }

    // Gradient and step of the lane's weights.
    __device__ __forceinline__ void step_own(int step) {
        // With few rows the factors stay.
        constexpr bool FEW = ROWS == 8;
        Factor units[TILES_U][4];
        if (FEW) {
#pragma unroll
            for (int tile = 0; tile < TILES_U; ++tile) read_gradient(units[tile], tile, 0);
        }
#pragma unroll
        for (int k = 0; k < STEPS_K; ++k) {
            if (!there(k)) continue;
            float c[TILES_U][2][4] = {};
#pragma unroll(ROWS <= 16 ? ROWS / 8 : 2)
            for (int rows = 0; rows < ROWS / 8; ++rows) {
                const unsigned char* at = &s.x[step % X_BUFFERS][8 * rows + t][column(k) + g / 2 * 4];
                u32 low = *reinterpret_cast<const u32*>(at);
                u32 high = *reinterpret_cast<const u32*>(at + 4 * STRIDE_X);
                Factor x[2] = {input(low, g % 2), input(high, g % 2)};
                Factor y[2] = {input(low, g % 2 + 2), input(high, g % 2 + 2)};
#pragma unroll
                for (int tile = 0; tile < TILES_U; ++tile) {
                    if (!FEW) read_gradient(units[tile], tile, rows);
                    multiply(c[tile][0], units[tile], x);
                    multiply(c[tile][1], units[tile], y);
                }
            }
#pragma unroll
            for (int tile = 0; tile < TILES_U; ++tile) {
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    float4 w = own(k, tile, row);
                    float(&v)[4] = this->v[k][tile][row];
                    const float scale = p.layers[0].scale;
                    step_one(w.x, v[0], scale * c[tile][0][2 * row]);
                    step_one(w.y, v[1], scale * c[tile][0][2 * row + 1]);
                    step_one(w.z, v[2], scale * c[tile][1][2 * row]);
                    step_one(w.w, v[3], scale * c[tile][1][2 * row + 1]);
                    own(k, tile, row) = w;
                }
            }
        }
    }

    __device__ void run() {
        double loss_sum = 0.;
        load();
        keep_pick(0, read_pick(0));
        keep_pick(1, read_pick(1));
        __syncthreads();
        copy_inputs(0);
        int step = 0;
#pragma unroll 1
        for (; step < p.steps; ++step) {
            if (s.diverged) break;
            wait_copies<0>();
            __syncthreads();
            if (X_BUFFERS > 1) copy_inputs(step + 1);
            Pick later = read_pick(step + 2);
            forward(step);
            add_logits(step);
            meet_cluster();
            take_softmax(step);
            __syncthreads();
            back_to_hidden();
            __syncthreads();
            step_rest([&](int u, int row) { return p.layers[0].scale * whole(gradient(u, row)); });
            note_loss(loss_sum, step);
            step_own(step);
            __syncthreads();
            keep_pick(step, later);
            if (X_BUFFERS == 1) copy_inputs(step + 1);
        }
        wait_copies<0>();
        store();
        meet_cluster();
        finish(loss_sum, step);
    }
};
