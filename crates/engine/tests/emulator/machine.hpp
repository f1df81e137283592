// What a thread of the host runs blocks with: machine, fibers, and what these wait for.
#pragma once

#include <stddef.h>

#include <vector>

#include "emulated.hpp"

namespace emulated {

constexpr size_t STACK = 128 * 1024;
constexpr int LANES = 32;

struct Copy {
    void* to;
    const void* from;
    int bytes, size, group;
};

// A product of a warp's rows with a tile.
struct Product {
    float (*c)[4];
    int eights;
    const uint32_t (*a)[4];
    const float* tile;
    int first, group;
};

enum class Ask { NOTHING, VALUES, PRODUCT };

struct Fiber : Place {
    void* stack = nullptr;  // while it waits
    bool ready = false, done = false;
    unsigned in_cluster = 0;  // which of its blocks
    struct Warp* warp = nullptr;
    unsigned arrived_at = 0;  // which meeting of the cluster
    // What it asks of its warp.
    Ask ask = Ask::NOTHING;
    uint32_t mask = 0;
    uint64_t value = 0;
    Lanes* lanes = nullptr;
    uint32_t a[4], b[2];
    float* c = nullptr;
    // Copies under way, by groups.
    std::vector<Copy> copies;
    int group = 0;
    // Products under way.
    std::vector<Product> products;
    int product_group = 0;
};

struct Warp {
    Fiber* lanes[LANES] = {};
};

// Threads that meet, again and again.
struct Meeting {
    unsigned living = 0, arrived = 0, times = 0;
    std::vector<Fiber*> waiting;

    void open_if_all() {
        if (arrived == 0 || arrived < living) return;
        for (Fiber* fiber : waiting) fiber->ready = true;
        waiting.clear();
        arrived = 0;
        ++times;
    }
};

// Where whole copies arrive.
struct Whole {
    std::vector<Copy> pending;
    int arrived = 0;
    std::vector<Fiber*> waiting;  // for a copy that nobody has started yet
};

// What a thread of the host runs blocks with.
struct Machine {
    Entry entry = nullptr;
    const void* args = nullptr;
    void* stack = nullptr;  // of the host
    Fiber* running = nullptr;
    bool early = false;       // copies happen at once, not as late as they may
    bool misaligned = false;  // has seen such a copy
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    std::vector<Meeting> blocks;
    Meeting cluster;
    std::vector<Whole> wholes;
    std::vector<unsigned char*> shared;
    unsigned char* stacks = nullptr;
    size_t stack_count = 0, shared_bytes = 0, warps_per_block = 0;

    ~Machine();
    void reserve(size_t threads, unsigned cluster_blocks, size_t bytes);
    // Runs a cluster of blocks; false if its threads wait for each other for ever.
    bool run(const Grid& grid, unsigned first_block, unsigned order);
    void begin(const Grid& grid, unsigned first_block);
    bool let_run(Warp& warp);
};

extern __thread Machine* machine;

// Lets others run, until somebody marks the running fiber as ready.
void give_way();

}  // namespace emulated
