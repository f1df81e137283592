// What networks that stay on the chip share: arguments, the batch, the readout and the loss.
//
// A cluster of CLUSTER blocks trains one replica; each block owns UNITS units of each of the LAYERS
// hidden layers, and the readout's weights of those of the last.

#define THREADS (32 * WARPS)
#define BLOCKS_K (INPUTS / 16)                     // 16 inputs each
#define ROWS ((BATCH + 7) / 8 * 8)                 // of a batch
#define GROUP (ROWS < SUM_ROWS ? ROWS : SUM_ROWS)  // rows that are summed at a time
#define STRIDE_X (INPUTS % 32 == 16 ? INPUTS : INPUTS + 16)  // bytes
#define CLASS_LANES 16
#define READOUT LAYERS  // of the arguments' layers

static_assert(INPUTS % 16 == 0 && UNITS % 16 == 0 && CLASSES <= CLASS_LANES, "shape");
static_assert(ROWS % GROUP == 0 && GROUP % 8 == 0 && BATCH <= THREADS, "rows");

struct Pick {
    u32 example;
    int label;
};

// z = scale·(W·y + b), with W (columns of the layer before, columns).
struct Dense {
    i64 weight, bias;  // in the flat weights; negative: none
    int columns;
    float scale;
};

struct Resident {
    const unsigned char* bytes;  // (examples, INPUTS)
    const float* offset;         // (value − offset)·factor
    const float* factor;
    const Pick* picks;  // (replicas, most steps, BATCH)
    Replica* replicas;
    float* weights;
    float* velocity;
    float* far;  // velocities that no block has room for, as lanes own them
    i64 weights_replica;
    Dense layers[4];
    int steps, most_steps;
    float smoothing;
    Descent descent;
    u32 pad;
};

// The readout, its velocities, and all biases with theirs.
struct Rest {
    float weight[UNITS][CLASSES], weight_velocity[UNITS][CLASSES];
    float bias[LAYERS][UNITS], bias_velocity[LAYERS][UNITS];
    float last_bias[CLASSES], last_bias_velocity[CLASSES];
};

// Both ends of the network in shared memory.
struct Ends {
    alignas(16) unsigned char x[X_BUFFERS][ROWS][STRIDE_X];
    float hidden[UNITS][ROWS + 1];  // of the last hidden layer
    Rest rest;
    float logits[2][ROWS][CLASSES];  // this block's part
    float logit_gradient[ROWS][CLASSES];
    float surprise[ROWS][CLASSES];  // −log p
    Pick picks[2][BATCH];
    u32 diverged;
};

extern __shared__ __align__(16) unsigned char memory[];

#if CLUSTER == 1
// A block without others.
__device__ __forceinline__ void meet_cluster() { __syncthreads(); }
__device__ __forceinline__ void arrive_at_cluster() {}
__device__ __forceinline__ void wait_for_cluster() { __syncthreads(); }
__device__ __forceinline__ float read_other(const float* own, u32) { return *own; }
__device__ __forceinline__ float4 read_other(const float4* own, u32) { return *own; }
#endif

// Loads or stores a weight and its velocity, if they are real.
struct Load {
    const float *weights, *velocity;
    __device__ __forceinline__ void operator()(float& w, float& v, i64 at, bool real) const {
        w = real ? weights[at] : 0.f;
        v = real ? velocity[at] : 0.f;
    }
};

struct Store {
    float *weights, *velocity;
    __device__ __forceinline__ void operator()(float& w, float& v, i64 at, bool real) const {
        if (real) weights[at] = w;
        if (real) velocity[at] = v;
    }
};

struct EndsTrainer {
    const Resident& p;
    Ends& s;
    const int replica, block, thread, lane, g, t;
    const float offset, factor_, learning_rate;

    __device__ EndsTrainer(const Resident& p, Ends& s, int replica, int block)
        : p(p),
          s(s),
          replica(replica),
          block(block),
          thread(threadIdx.x),
          lane(threadIdx.x % 32),
          g(threadIdx.x % 32 / 4),
          t(threadIdx.x % 4),
          offset(__ldg(p.offset)),
          factor_(__ldg(p.factor)),
          learning_rate(p.replicas[replica].learning_rate) {}

    // A normalized input out of a word of 4.
    __device__ __forceinline__ Factor input(u32 word, int at) const {
        // The byte becomes the last bits of 2^23 + byte.
        float value = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7440u + at)) - 8388608.f;
        return factor((value - offset) * factor_);
    }

    __device__ __forceinline__ void step_one(float& weight, float& velocity, float gradient) const {
        const Descent rule{p.descent.momentum, NESTEROV};
        descend(weight, velocity, gradient, learning_rate, rule);
    }

    // Visits each value of the rest, with its velocity. All blocks have the same last bias.
    template <typename Visit>
    __device__ __forceinline__ void each_rest(Visit visit, bool last_bias) {
        Rest& r = s.rest;
        const Dense& readout = p.layers[READOUT];
        for (int at = thread; at < UNITS * CLASSES; at += THREADS) {
            int u = at / CLASSES, c = at % CLASSES, row = block * UNITS + u;
            visit(r.weight[u][c], r.weight_velocity[u][c],
                  readout.weight + (i64)row * readout.columns + c, row < p.layers[LAYERS - 1].columns);
        }
#pragma unroll
        for (int layer = 0; layer < LAYERS; ++layer) {
            const Dense& dense = p.layers[layer];
            for (int u = thread; u < UNITS; u += THREADS) {
                int row = block * UNITS + u;
                visit(r.bias[layer][u], r.bias_velocity[layer][u], dense.bias + row,
                      dense.bias >= 0 && row < dense.columns);
            }
        }
        for (int c = thread; c < CLASSES; c += THREADS) {
            visit(r.last_bias[c], r.last_bias_velocity[c], readout.bias + c,
                  last_bias && readout.bias >= 0);
        }
    }

    __device__ __forceinline__ void clear() {
        for (int at = thread; at < X_BUFFERS * ROWS * STRIDE_X; at += THREADS) s.x[0][0][at] = 0;
        if (thread == 0) s.diverged = 0;
    }

    // All weights and velocities from memory, and back; `each_own` visits those besides the rest.
    template <typename Each>
    __device__ __forceinline__ void load_with(Each each_own) {
        const i64 start = replica * p.weights_replica;
        Load visit{p.weights + start, p.velocity + start};
        each_own(visit);
        each_rest(visit, true);
        clear();
    }
    template <typename Each>
    __device__ __forceinline__ void store_with(Each each_own) {
        const i64 start = replica * p.weights_replica;
        Store visit{p.weights + start, p.velocity + start};
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
                copy_16<false>(&s.x[step % X_BUFFERS][row][part], from + part);
            }
        }
        end_copies();
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
                float sum = s.rest.last_bias[c];
#pragma unroll
                for (int block = 0; block < CLUSTER; ++block) {
                    sum += read_other(&s.logits[step % 2][row][c], block);
                }
                z = p.layers[READOUT].scale * sum;
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

    // ∂loss/∂z of a unit of the last hidden layer, before its scale.
    __device__ __forceinline__ float back_through_readout(int u, int row) const {
        float sum = 0.f;
#pragma unroll
        for (int c = 0; c < CLASSES; ++c) {
            sum = fmaf(s.logit_gradient[row][c], s.rest.weight[u][c], sum);
        }
        return pass_relu(p.layers[READOUT].scale * sum, s.hidden[u][row]);
    }

    // A step of the readout, its bias and that of the last hidden layer, of whose gradient `slope` tells
    // a row's part; each kind by warps of its own where there are enough.
    template <typename Slope>
    __device__ __forceinline__ void step_rest(Slope slope) {
        Rest& r = s.rest;
        constexpr int FIRST = (UNITS * CLASSES + 31) / 32 * 32, SECOND = FIRST + (UNITS + 31) / 32 * 32;
        const Dense &last = p.layers[LAYERS - 1], &readout = p.layers[READOUT];
#pragma unroll 1
        for (int at = thread; at < SECOND + CLASSES; at += THREADS) {
            float sum = 0.f;
            if (at < UNITS * CLASSES) {
                int u = at / CLASSES, c = at % CLASSES;
#pragma unroll 8
                for (int row = 0; row < BATCH; ++row) {
                    sum = fmaf(s.hidden[u][row], s.logit_gradient[row][c], sum);
                }
                step_one(r.weight[u][c], r.weight_velocity[u][c], readout.scale * sum);
            } else if (at >= SECOND && readout.bias >= 0) {
                int c = at - SECOND;
#pragma unroll 8
                for (int row = 0; row < BATCH; ++row) sum += s.logit_gradient[row][c];
                step_one(r.last_bias[c], r.last_bias_velocity[c], readout.scale * sum);
            } else if (at >= FIRST && at < FIRST + UNITS && last.bias >= 0) {
                int u = at - FIRST;
#pragma unroll 8
                for (int row = 0; row < BATCH; ++row) sum += slope(u, row);
                step_one(r.bias[LAYERS - 1][u], r.bias_velocity[LAYERS - 1][u], sum);
            }
        }
    }

    // Adds the step's mean loss; the last warp's task.
    __device__ __forceinline__ void note_loss(double& loss_sum, int step) {
        if (thread / 32 != WARPS - 1) return;
        double mean = mean_loss(step);
        loss_sum += mean;
        if (lane == 0 && !isfinite(mean)) s.diverged = 1;
    }

    // Tells how far the replica has come.
    __device__ __forceinline__ void finish(double loss_sum, int steps) {
        if (block != 0 || thread != THREADS - 32) return;
        Replica& state = p.replicas[replica];
        state.loss_sum += loss_sum;
        state.step += steps;
        if (s.diverged) {
            state.diverged_at = state.step;
            state.active = 0;
        }
    }
};
