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

#define WARPS (U_WARPS * K_WARPS)
#define THREADS (32 * WARPS)
#define BLOCKS_K (INPUTS / 16)                          // 16 inputs each
#define STEPS_K ((BLOCKS_K + K_WARPS - 1) / K_WARPS)    // of a warp
#define TILES_U (UNITS / 16 / U_WARPS)                  // of a warp, 16 units each
#define ROWS ((BATCH + 7) / 8 * 8)                      // of a batch
#define GROUP (ROWS < SUM_ROWS ? ROWS : SUM_ROWS)       // rows that are summed at a time
#define STRIDE_W (INPUTS % 32 == 16 ? INPUTS : INPUTS + 16)
#define STRIDE_X (INPUTS % 32 == 16 ? INPUTS : INPUTS + 16)  // bytes
#define CLASS_LANES 16

static_assert(INPUTS % 16 == 0 && UNITS % (16 * U_WARPS) == 0 && CLASSES <= CLASS_LANES, "shape");
static_assert(ROWS % GROUP == 0 && GROUP % 8 == 0 && BATCH <= THREADS, "rows");

struct Pick {
    u32 example;
    int label;
};

struct Resident {
    const unsigned char* bytes;  // (examples, INPUTS)
    const float* offset;         // (value − offset)·factor
    const float* factor;
    const Pick* picks;  // (replicas, most steps, BATCH)
    Replica* replicas;
    float* weights;
    float* velocity;
    i64 weights_replica;
    i64 first_weight, first_bias;    // W (INPUTS, columns) and its b; negative: none
    i64 second_weight, second_bias;  // of the readout
    int columns, second_columns;
    int steps, most_steps;
    float first_scale, second_scale;
    float smoothing;
    Descent descent;
    u32 pad;
};

// The readout, its velocities, and both biases with theirs.
struct Rest {
    float weight[UNITS][CLASSES], weight_velocity[UNITS][CLASSES];
    float bias[UNITS], bias_velocity[UNITS];
    float second_bias[CLASSES], second_bias_velocity[CLASSES];
};

struct Shared {
    float w[UNITS][STRIDE_W];
    unsigned char x[X_BUFFERS][ROWS][STRIDE_X];
    union {
        alignas(16) float sums[K_WARPS][UNITS][GROUP];
        alignas(16) Factor gradient[UNITS / 16][ROWS / 8][32][4];  // ∂loss/∂z, as factors of 16 × 8
    };
    float hidden[UNITS][ROWS + 1];
    Rest rest;
    float logits[2][ROWS][CLASSES];  // this block's part
    float logit_gradient[ROWS][CLASSES];
    float surprise[ROWS][CLASSES];  // −log p
    Pick picks[2][BATCH];
    u32 diverged;
};

static_assert(sizeof(Shared) <= SHARED, "shared memory");

extern __shared__ __align__(16) unsigned char memory[];

#if CLUSTER == 1
// A block without others.
__device__ __forceinline__ void meet_cluster() { __syncthreads(); }
__device__ __forceinline__ float read_other(const float* own, u32) { return *own; }
#endif

struct Trainer {
    const Resident& p;
    Shared& s;
    const int replica, block, thread, lane, g, t, warp_k, unit;  // unit: the warp's first
    const float offset, factor_, learning_rate;
    // Of the lane's weights: by 16 inputs, 16 units, the two units, their 4 inputs.
    float v[STEPS_K][TILES_U][2][4];

    __device__ Trainer(const Resident& p, Shared& s, int replica, int block)
        : p(p),
          s(s),
          replica(replica),
          block(block),
          thread(threadIdx.x),
          lane(threadIdx.x % 32),
          g(threadIdx.x % 32 / 4),
          t(threadIdx.x % 4),
          warp_k(threadIdx.x / 32 % K_WARPS),
          unit(threadIdx.x / 32 / K_WARPS * 16 * TILES_U),
          offset(__ldg(p.offset)),
          factor_(__ldg(p.factor)),
          learning_rate(p.replicas[replica].learning_rate) {}

    // The warp's blocks of 16 inputs that there are.
    __device__ __forceinline__ int column(int k) const { return 16 * (warp_k * STEPS_K + k); }
    __device__ __forceinline__ bool there(int k) const { return column(k) < INPUTS; }

    // The lane's 4 weights of one of its units.
    __device__ __forceinline__ float4& own(int k, int tile, int row) {
        float* at = &s.w[unit + 16 * tile + 8 * row + g][column(k) + 4 * t];
        return *reinterpret_cast<float4*>(at);
    }

    // A normalized input out of a word of 4.
    __device__ __forceinline__ Factor input(u32 word, int at) const {
        // The byte becomes the last bits of 2^23 + byte.
        float value = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7440u + at)) - 8388608.f;
        return factor((value - offset) * factor_);
    }

    // ∂loss/∂z of a unit.
    __device__ __forceinline__ Factor& gradient(int u, int row) {
        return s.gradient[u / 16][row / 8][u % 8 * 4 + row % 4][u / 8 % 2 + row / 4 % 2 * 2];
    }

    __device__ __forceinline__ void step_one(float& weight, float& velocity, float gradient) const {
        const Descent rule{p.descent.momentum, NESTEROV};
        descend(weight, velocity, gradient, learning_rate, rule);
    }

    // Visits each weight of the lane in the replica's memory.
    template <typename Visit>
    __device__ __forceinline__ void each_own(Visit visit) {
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
                        i64 at = p.first_weight + (i64)(column(k) + 4 * t + i) * p.columns + column_w;
                        float* w = &s.w[unit + 16 * tile + 8 * row + g][column(k) + 4 * t + i];
                        visit(*w, v[k][tile][row][i], at, column_w < p.columns);
                    }
                }
            }
        }
    }

    // Visits each value of the rest, with its velocity. All blocks have the same second bias.
    template <typename Visit>
    __device__ __forceinline__ void each_rest(Visit visit, bool second_bias) {
        Rest& r = s.rest;
        for (int at = thread; at < UNITS * CLASSES; at += THREADS) {
            int u = at / CLASSES, c = at % CLASSES, row = block * UNITS + u;
            visit(r.weight[u][c], r.weight_velocity[u][c],
                  p.second_weight + (i64)row * p.second_columns + c, row < p.columns);
        }
        for (int u = thread; u < UNITS; u += THREADS) {
            int row = block * UNITS + u;
            visit(r.bias[u], r.bias_velocity[u], p.first_bias + row,
                  p.first_bias >= 0 && row < p.columns);
        }
        for (int c = thread; c < CLASSES; c += THREADS) {
            visit(r.second_bias[c], r.second_bias_velocity[c], p.second_bias + c,
                  second_bias && p.second_bias >= 0);
        }
    }

    __device__ void load() {
        const float* weights = p.weights + replica * p.weights_replica;
        const float* velocity = p.velocity + replica * p.weights_replica;
        auto visit = [&](float& w, float& v, i64 at, bool real) {
            w = real ? weights[at] : 0.f;
            v = real ? velocity[at] : 0.f;
        };
        each_own(visit);
        each_rest(visit, true);
        for (int at = thread; at < X_BUFFERS * ROWS * STRIDE_X; at += THREADS) s.x[0][0][at] = 0;
        if (thread == 0) s.diverged = 0;
    }

    __device__ void store() {
        float* weights = p.weights + replica * p.weights_replica;
        float* velocity = p.velocity + replica * p.weights_replica;
        auto visit = [&](float& w, float& v, i64 at, bool real) {
            if (real) weights[at] = w;
            if (real) velocity[at] = v;
        };
        each_own(visit);
        each_rest(visit, block == 0);
    }

    // Which example of a step the thread keeps, for `keep_pick`.
    __device__ __forceinline__ Pick read_pick(int step) const {
        Pick none{0, 0};
        if (thread >= BATCH || step >= p.steps) return none;
        const Pick* from = p.picks + ((i64)replica * p.most_steps + step) * BATCH + thread;
        return *from;
    }

    __device__ __forceinline__ void keep_pick(int step, Pick pick) {
        if (thread < BATCH) s.picks[step % 2][thread] = pick;
    }

    // Begins to copy the inputs of a step.
    __device__ __forceinline__ void copy_inputs(int step) {
        if (step < p.steps) {
            for (int at = thread; at < BATCH * BLOCKS_K; at += THREADS) {
                int row = at / BLOCKS_K, part = at % BLOCKS_K * 16;
                const unsigned char* from = p.bytes + (i64)s.picks[step % 2][row].example * INPUTS;
                copy_16(&s.x[step % X_BUFFERS][row][part], from + part);
            }
        }
        end_copies();
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
                float sum = s.rest.bias[u];
#pragma unroll
                for (int k = 0; k < K_WARPS; ++k) sum += s.sums[k][u][row];
                s.hidden[u][first + row] = relu(p.first_scale * sum);
            }
            __syncthreads();
        }
    }

    // This block's part of the logits, a class by four lanes.
    __device__ __forceinline__ void add_logits(int step) {
        for (int at = thread; at < ROWS * CLASSES * 4; at += THREADS) {
            int part = at % 4, c = at / 4 % CLASSES, row = at / 4 / CLASSES;
            float sum = 0.f;
#pragma unroll 8
            for (int u = part; u < UNITS; u += 4) sum = fmaf(s.hidden[u][row], s.rest.weight[u][c], sum);
            u32 mask = 0xfu << (lane & ~3);
            sum += __shfl_xor_sync(mask, sum, 1);
            sum += __shfl_xor_sync(mask, sum, 2);
            if (part == 0) s.logits[step % 2][row][c] = sum;
        }
    }

    // −log p and ∂loss/∂logits, a row by CLASS_LANES lanes; as `cross_entropy` of loss.cu.
    __device__ __forceinline__ void take_softmax(int step) {
        const float off = p.smoothing / CLASSES, on = 1.f - p.smoothing + off;
        const int c = thread % CLASS_LANES;
        const bool real = c < CLASSES;
#pragma unroll 1
        for (int row = thread / CLASS_LANES; row < ROWS; row += THREADS / CLASS_LANES) {
            float z = -3.402823466e38f;
            if (real) {
                float sum = s.rest.second_bias[c];
#pragma unroll
                for (int block = 0; block < CLUSTER; ++block) {
                    sum += read_other(&s.logits[step % 2][row][c], block);
                }
                z = p.second_scale * sum;
            }
            float largest = z;
#pragma unroll
            for (int d = CLASS_LANES / 2; d > 0; d /= 2) {
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, d));
            }
            float power = real ? expf(z - largest) : 0.f, sum = power;
#pragma unroll
            for (int d = CLASS_LANES / 2; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
            if (real) {
                bool used = row < BATCH;
                float q = used && c == s.picks[step % 2][used ? row : 0].label ? on : off;
                s.logit_gradient[row][c] = used ? (power / sum - q) * (1.f / BATCH) : 0.f;
                s.surprise[row][c] = logf(sum) + largest - z;
            }
        }
    }

    // The mean cross-entropy, by one warp.
    __device__ __forceinline__ double mean_loss(int step) const {
        const float off = p.smoothing / CLASSES, on = 1.f - p.smoothing + off;
        double loss = 0.;
        for (int row = lane; row < BATCH; row += 32) {
            int label = s.picks[step % 2][row].label;
#pragma unroll
            for (int c = 0; c < CLASSES; ++c) {
                loss += (double)(c == label ? on : off) * (double)s.surprise[row][c];
            }
        }
        return warp_sum(loss) / BATCH;
    }

    // ∂loss/∂z of the hidden units, before their scale.
    __device__ __forceinline__ void back_to_hidden() {
        for (int at = thread; at < UNITS * ROWS; at += THREADS) {
            int u = at / ROWS, row = at % ROWS;
            float sum = 0.f;
#pragma unroll
            for (int c = 0; c < CLASSES; ++c) {
                sum = fmaf(s.logit_gradient[row][c], s.rest.weight[u][c], sum);
            }
            gradient(u, row) = factor(pass_relu(p.second_scale * sum, s.hidden[u][row]));
        }
    }

    // A step of the readout and the biases, each kind by warps of its own where there are enough.
    __device__ __forceinline__ void step_rest() {
        Rest& r = s.rest;
        constexpr int FIRST = (UNITS * CLASSES + 31) / 32 * 32, SECOND = FIRST + (UNITS + 31) / 32 * 32;
#pragma unroll 1
        for (int at = thread; at < SECOND + CLASSES; at += THREADS) {
            float sum = 0.f;
            if (at < UNITS * CLASSES) {
                int u = at / CLASSES, c = at % CLASSES;
#pragma unroll 8
                for (int row = 0; row < BATCH; ++row) {
                    sum = fmaf(s.hidden[u][row], s.logit_gradient[row][c], sum);
                }
                step_one(r.weight[u][c], r.weight_velocity[u][c], p.second_scale * sum);
            } else if (at >= SECOND && p.second_bias >= 0) {
                int c = at - SECOND;
#pragma unroll 8
                for (int row = 0; row < BATCH; ++row) sum += s.logit_gradient[row][c];
                step_one(r.second_bias[c], r.second_bias_velocity[c], p.second_scale * sum);
            } else if (at >= FIRST && at < FIRST + UNITS && p.first_bias >= 0) {
                int u = at - FIRST;
#pragma unroll 8
                for (int row = 0; row < BATCH; ++row) sum += whole(gradient(u, row));
                step_one(r.bias[u], r.bias_velocity[u], p.first_scale * sum);
            }
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
                    const float scale = p.first_scale;
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
        Replica& state = p.replicas[replica];
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
            step_rest();
            if (thread / 32 == WARPS - 1) {
                double mean = mean_loss(step);
                loss_sum += mean;
                if (lane == 0 && !isfinite(mean)) s.diverged = 1;
            }
            step_own(step);
            __syncthreads();
            keep_pick(step, later);
            if (X_BUFFERS == 1) copy_inputs(step + 1);
        }
        wait_copies<0>();
        store();
        meet_cluster();
        if (block == 0 && thread == THREADS - 32) {
            state.loss_sum += loss_sum;
            state.step += step;
            if (s.diverged) {
                state.diverged_at = state.step;
                state.active = 0;
            }
        }
    }
};

// Blocks: (CLUSTER · replicas).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
#if CLUSTER > 1
    __cluster_dims__(CLUSTER, 1, 1)
#endif
        train_resident(const __grid_constant__ Resident p) {
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int replica = blockIdx.x / CLUSTER;
    if (!p.replicas[replica].active) return;
    Trainer(p, shared, replica, blockIdx.x % CLUSTER).run();
}
