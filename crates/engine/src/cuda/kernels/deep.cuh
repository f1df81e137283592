// A network with two or three hidden layers on the chip: what a block of `deep.cu` keeps, and where.
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

static_assert(sizeof(Shared) % 16 == 0, "weights of the first layer follow");
static_assert(sizeof(Shared) + 1024 * TILES * FIRST_BLOCKS <= SHARED, "shared memory");

constexpr int before(int layer) { return layer > 0 ? layer - 1 : 0; }
constexpr int blocks_of(int layer) { return layer == 0 ? BLOCKS_K : BLOCKS_H; }
constexpr int turns_of(int layer) { return layer == 0 ? TURNS_K : TURNS_H; }
constexpr bool is_far(int layer) { return FAR_LAYERS >> layer & 1; }

// Where a layer's velocities begin in a block's far ones, in lanes' fours.
constexpr i64 far_start(int layer) {
    return layer == 0 ? 0 : far_start(layer - 1) + is_far(layer - 1) * blocks_of(layer - 1) * TILES * 64;
}

// A block's part of the network, and who holds what of it.
struct Part : EndsTrainer {
    Shared& s;
    const int warp;
    float4* const first;  // weights of the first layer in shared memory
    float4* const far;    // this block's, from the lane's first on
    // Of the lane's weights: by turn, 16 units, the two units.
    float4 held[FIRST_HELD > 0 ? FIRST_HELD : 1][TILES][2];
    float4 first_velocity[TURNS_K][TILES][2];
    float4 velocity[LAYERS - 1][TURNS_H][TILES][2];

    __device__ Part(const Resident& p, Shared& s, int replica, int block)
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

    // Which inputs of the layer they are. Blocks begin with their own units, lest all read the same
    // block's at once.
    template <int LAYER>
    __device__ __forceinline__ int origin(int turn) const {
        if (LAYER == 0) return input_block(turn);
        const int at = input_block(turn) + block * TILES;
        return at < BLOCKS_H ? at : at - BLOCKS_H;
    }

    // Where a weight lies among 16 × 16: without bank conflicts by unit and by input.
    __device__ __forceinline__ static int place_in_tile(int u, int input) {
        return u * 16 + (input ^ (u & 2) << 2);
    }

    // The lane's 4 weights of one of its units.
    template <int LAYER>
    __device__ __forceinline__ float4& own(int turn, int tile, int row) {
        if constexpr (LAYER > 0) {
            float* weights = s.w[LAYER - 1][input_block(turn)][tile];
            return *reinterpret_cast<float4*>(weights + place_in_tile(8 * row + g, 4 * t));
        } else {
            if (turn < FIRST_SHARED) return first[((input_block(turn) * TILES + tile) * 2 + row) * 32];
            return held[turn - FIRST_SHARED][tile][row];
        }
    }

    // Their velocities, as far as they stay in registers, and where they lie otherwise.
    template <int LAYER>
    __device__ __forceinline__ float4& near_velocity(int turn, int tile, int row) {
        if constexpr (LAYER > 0) {
            return velocity[LAYER - 1][turn][tile][row];
        } else {
            return first_velocity[turn][tile][row];
        }
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
        const int inputs = LAYER == 0 ? INPUTS : p.layers[before(LAYER)].columns;
#pragma unroll
        for (int turn = 0; turn < turns_of(LAYER); ++turn) {
            if (!there<LAYER>(turn)) continue;
#pragma unroll
            for (int at = 0; at < 2 * TILES; ++at) {
                float4 &w = own<LAYER>(turn, at / 2, at % 2), v = read_velocity<LAYER>(turn, at / 2, at % 2);
                const int column = block * UNITS + 8 * at + g, input = 16 * origin<LAYER>(turn) + 4 * t;
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
        load_with([&](auto visit) { each_own<0>(visit); });
    }

    __device__ void store() {
        store_with([&](auto visit) { each_own<0>(visit); });
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
};
