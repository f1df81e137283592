// Threads of the emulated device, as fibers that take turns.
//
// The host runs a cluster of blocks at a time on each of its threads. A fiber gives way where it waits:
// for the lanes of its warp, its block or its cluster. Shared memory begins as NaN, and from launch to
// launch and cluster to cluster warps take their turns otherwise: forwards or backwards, each block as
// far as it gets or all in step. So a kernel with a barrier too few is caught by its results.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "emulated.hpp"

#ifndef __x86_64__
#error "the emulator switches stacks of x86-64 only"
#endif

// Puts registers that a callee keeps onto the stack, notes it, and goes on with another.
asm(R"(
    .text
    .type switch_stack, @function
switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size switch_stack, .-switch_stack
)");
extern "C" void switch_stack(void** from, void* to);

namespace emulated {

__thread Place* place;

namespace {

constexpr size_t STACK = 128 * 1024;
constexpr int LANES = 32;
constexpr uint32_t DEVICE_NAN = 0x7fffffff;

struct Copy {
    void* to;
    const void* from;
    int bytes, size, group;
};

void carry_out(const Copy& copy) {
    memcpy(copy.to, copy.from, copy.bytes);
    memset((char*)copy.to + copy.bytes, 0, copy.size - copy.bytes);
}

// A product of a warp's rows with a tile.
struct Product {
    float (*c)[4];
    int eights;
    uint32_t a[4];
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
    // Products under way, by groups.
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

    ~Machine() {
        if (stacks) munmap(stacks, stack_count * STACK);
        for (unsigned char* memory : shared) free(memory);
    }

    void reserve(size_t threads, unsigned cluster_blocks, size_t bytes) {
        if (threads > stack_count) {
            if (stacks) munmap(stacks, stack_count * STACK);
            stack_count = threads;
            void* memory = mmap(nullptr, stack_count * STACK, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (memory == MAP_FAILED) abort();
            stacks = (unsigned char*)memory;
        }
        if (shared.size() < cluster_blocks || shared_bytes < bytes) {
            for (unsigned char* memory : shared) free(memory);
            shared_bytes = (bytes + 255) / 256 * 256 + 256;
            shared.assign(cluster_blocks, nullptr);
            for (unsigned char*& memory : shared) memory = (unsigned char*)aligned_alloc(256, shared_bytes);
        }
    }

    // Runs a cluster of blocks; false if its threads wait for each other for ever.
    bool run(const Grid& grid, unsigned first_block, unsigned order);
    void begin(const Grid& grid, unsigned first_block);
    bool let_run(Warp& warp);
};

__thread Machine* machine;

void give_way() { switch_stack(&machine->running->stack, machine->stack); }

void begin_thread() {
    machine->entry(machine->args);
    Fiber* self = machine->running;
    self->done = true;
    Meeting& block = machine->blocks[self->in_cluster];
    --block.living;
    --machine->cluster.living;
    block.open_if_all();
    machine->cluster.open_if_all();
    give_way();
}

// A stack from which the first switch goes to `begin_thread`.
void* fresh_stack(unsigned char* memory) {
    void** top = (void**)(memory + STACK);
    *--top = nullptr;  // it never returns
    *--top = (void*)begin_thread;
    for (int registers = 0; registers < 6; ++registers) *--top = nullptr;
    return top;
}

unsigned arrive(Meeting& meeting) {
    const unsigned at = meeting.times;
    ++meeting.arrived;
    meeting.open_if_all();
    return at;
}

void wait(Meeting& meeting, unsigned at) {
    if (meeting.times != at) return;
    machine->running->ready = false;
    meeting.waiting.push_back(machine->running);
    give_way();
}

float value_of(uint32_t tf32) {
    float value;
    tf32 &= 0xffffe000u;
    memcpy(&value, &tf32, sizeof value);
    return value;
}

void arrive_all(Whole& whole) {
    for (const Copy& copy : whole.pending) carry_out(copy);
    whole.arrived += whole.pending.size();
    whole.pending.clear();
}

void multiply_warp(const Warp& warp) {
    float a[16][8], b[8][8];
    for (int lane = 0; lane < LANES; ++lane) {
        const Fiber& f = *warp.lanes[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; ++i) a[g + i % 2 * 8][t + i / 2 * 4] = value_of(f.a[i]);
        for (int i = 0; i < 2; ++i) b[t + 4 * i][g] = value_of(f.b[i]);
    }
    for (int row = 0; row < 16; ++row) {
        float sums[8] = {};
        for (int k = 0; k < 8; ++k) {
            for (int n = 0; n < 8; ++n) sums[n] += a[row][k] * b[k][n];
        }
        for (int n = 0; n < 8; ++n) {
            float& sum = warp.lanes[row % 8 * 4 + n / 2]->c[row / 8 * 2 + n % 2];
            sum += sums[n];
            if (sum != sum) memcpy(&sum, &DEVICE_NAN, sizeof sum);
        }
    }
}

void exchange_values(const Warp& warp, uint32_t mask) {
    for (int to = 0; to < LANES; ++to) {
        if (!(mask >> to & 1)) continue;
        for (int from = 0; from < LANES; ++from) {
            if (mask >> from & 1) warp.lanes[to]->lanes->values[from] = warp.lanes[from]->value;
        }
    }
}

// Waits until all lanes of the mask ask for the same; the last of them does it for all.
void ask_warp(Ask ask, uint32_t mask) {
    Fiber* self = machine->running;
    Warp& warp = *self->warp;
    self->ask = ask;
    self->mask = mask;
    // Lanes come in order, so the last one tells most.
    for (int lane = LANES - 1; lane >= 0; --lane) {
        if (!(mask >> lane & 1)) continue;
        Fiber* other = warp.lanes[lane];
        if (!other || other->ask != ask || other->mask != mask) {
            self->ready = false;
            return give_way();
        }
    }
    if (ask == Ask::PRODUCT) {
        multiply_warp(warp);
    } else {
        exchange_values(warp, mask);
    }
    for (int lane = 0; lane < LANES; ++lane) {
        if (!(mask >> lane & 1)) continue;
        warp.lanes[lane]->ask = Ask::NOTHING;
        warp.lanes[lane]->ready = true;
    }
}

void Machine::begin(const Grid& grid, unsigned first_block) {
    const unsigned threads = grid.threads.x, count = grid.cluster * threads;
    warps_per_block = (threads + LANES - 1) / LANES;
    reserve(count, grid.cluster, grid.shared);
    fibers.assign(count, Fiber());
    warps.assign(grid.cluster * warps_per_block, Warp());
    blocks.assign(grid.cluster, Meeting{threads});
    cluster = Meeting{count};
    wholes.clear();
    for (unsigned i = 0; i < count; ++i) {
        Fiber& f = fibers[i];
        const unsigned block = i / threads, thread = i % threads, number = first_block + block;
        f.thread = {thread, 0, 0};
        f.block = {number % grid.blocks.x, number / grid.blocks.x % grid.blocks.y,
                   number / grid.blocks.x / grid.blocks.y};
        f.Place::threads = grid.threads;
        f.Place::blocks = grid.blocks;
        f.Place::shared = shared[block];
        f.in_cluster = block;
        f.warp = &warps[block * warps_per_block + thread / LANES];
        f.warp->lanes[thread % LANES] = &f;
        f.stack = fresh_stack(stacks + i * STACK);
        f.ready = true;
    }
    for (unsigned block = 0; block < grid.cluster; ++block) memset(shared[block], 0xff, grid.shared);
}

// Lets the lanes of a warp run until each of them waits; whether any did.
bool Machine::let_run(Warp& warp) {
    bool any = false;
    for (bool again = true; again;) {
        again = false;
        for (Fiber* fiber : warp.lanes) {
            if (!fiber || fiber->done || !fiber->ready) continue;
            running = fiber;
            place = fiber;
            switch_stack(&stack, fiber->stack);
            any = again = true;
        }
    }
    return any;
}

bool Machine::run(const Grid& grid, unsigned first_block, unsigned order) {
    const bool backwards = order % 2, far = order / 2 % 2;
    early = order / 4 % 2;
    misaligned = false;
    begin(grid, first_block);
    auto from_end = [&](size_t turn, size_t count) { return backwards ? count - 1 - turn : turn; };
    while (cluster.living > 0) {
        bool moved = false;
        for (size_t turn = 0; turn < blocks.size(); ++turn) {
            const size_t first = from_end(turn, blocks.size()) * warps_per_block;
            bool again;
            do {
                again = false;
                for (size_t warp = 0; warp < warps_per_block; ++warp) {
                    again |= let_run(warps[first + from_end(warp, warps_per_block)]);
                }
                moved |= again;
            } while (far && again);
        }
        if (!moved) return false;
    }
    return !misaligned;
}

// Machines that are free.
std::mutex idle_lock;
std::vector<std::unique_ptr<Machine>> idle;

std::unique_ptr<Machine> take_machine() {
    std::lock_guard<std::mutex> lock(idle_lock);
    if (idle.empty()) return std::make_unique<Machine>();
    std::unique_ptr<Machine> taken = std::move(idle.back());
    idle.pop_back();
    return taken;
}

void put_back(std::unique_ptr<Machine> free) {
    std::lock_guard<std::mutex> lock(idle_lock);
    idle.push_back(std::move(free));
}

}  // namespace

void meet_block() {
    Meeting& block = machine->blocks[machine->running->in_cluster];
    wait(block, arrive(block));
}

void arrive_at_cluster() { machine->running->arrived_at = arrive(machine->cluster); }

void wait_for_cluster() { wait(machine->cluster, machine->running->arrived_at); }

const void* in_other(const void* own, unsigned block) {
    size_t offset = (const unsigned char*)own - machine->running->shared;
    return machine->shared[block] + offset;
}

Lanes exchange(uint32_t mask, uint64_t own) {
    Lanes lanes{};
    Fiber* self = machine->running;
    self->value = own;
    self->lanes = &lanes;
    ask_warp(Ask::VALUES, mask);
    return lanes;
}

void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    Fiber* self = machine->running;
    memcpy(self->a, a, sizeof a);
    memcpy(self->b, b, sizeof b);
    self->c = c;
    ask_warp(Ask::PRODUCT, 0xffffffffu);
}

void start_product(float (*c)[4], int eights, const uint32_t (&a)[4], const float* tile, int first) {
    Fiber* self = machine->running;
    Product product{c, eights, {}, tile, first, self->product_group};
    memcpy(product.a, a, sizeof a);
    self->products.push_back(product);
}

void end_products() { ++machine->running->product_group; }

void wait_products(int but) {
    Fiber* self = machine->running;
    const int column = self->thread.x % LANES / 4, term = self->thread.x % 4;
    std::vector<Product> pending;
    pending.swap(self->products);
    for (const Product& product : pending) {
        if (product.group >= self->product_group - but) {
            self->products.push_back(product);
            continue;
        }
        for (int j = 0; j < product.eights; ++j) {
            const float* row = product.tile + 32 * (8 * j + column);
            uint32_t b[2];
            for (int i = 0; i < 2; ++i) {
                const int k = product.first + term + 4 * i;
                memcpy(&b[i], row + ((k / 4) ^ column) * 4 + k % 4, sizeof b[i]);
            }
            multiply(product.c[j], product.a, b);
        }
    }
}

void copy(void* to, const void* from, int bytes, int size) {
    Fiber* self = machine->running;
    if (((uintptr_t)to | (uintptr_t)from) % size != 0) machine->misaligned = true;
    const Copy copy{to, from, bytes, size, self->group};
    if (machine->early) {
        carry_out(copy);
    } else {
        self->copies.push_back(copy);
    }
}

void end_copies() { ++machine->running->group; }

void wait_copies(int but) {
    Fiber* self = machine->running;
    size_t kept = 0;
    for (const Copy& copy : self->copies) {
        if (copy.group >= self->group - but) {
            self->copies[kept++] = copy;
            continue;
        }
        carry_out(copy);
    }
    self->copies.resize(kept);
}

void expect_arrivals(Arrival* first, int count) {
    for (int i = 0; i < count; ++i) {
        first[i].number = machine->wholes.size();
        machine->wholes.emplace_back();
    }
}

void copy_whole(void* to, const void* from, int bytes, Arrival* arrival) {
    Whole& whole = machine->wholes[arrival->number];
    if (((uintptr_t)to | (uintptr_t)from | bytes) % 16 != 0) machine->misaligned = true;
    whole.pending.push_back({to, from, bytes, bytes, 0});
    if (machine->early) arrive_all(whole);
    for (Fiber* fiber : whole.waiting) fiber->ready = true;
    whole.waiting.clear();
}

void wait_arrival(Arrival* arrival, int before) {
    const unsigned number = arrival->number;
    while (machine->wholes[number].arrived <= before) {
        Whole& whole = machine->wholes[number];
        if (!whole.pending.empty()) {
            arrive_all(whole);
            continue;
        }
        machine->running->ready = false;
        whole.waiting.push_back(machine->running);
        give_way();
    }
}

bool run(Entry entry, const void* args, const Grid& grid) {
    const unsigned blocks = grid.blocks.x * grid.blocks.y * grid.blocks.z;
    static std::atomic<unsigned> launches{0};
    const unsigned launch = launches++;
    std::atomic<unsigned> next{0};
    std::atomic<bool> ended{true};
    auto work = [&] {
        std::unique_ptr<Machine> own = take_machine();
        own->entry = entry;
        own->args = args;
        machine = own.get();
        for (unsigned first; (first = next.fetch_add(grid.cluster)) < blocks && ended;) {
            if (!own->run(grid, first, launch + first / grid.cluster)) ended = false;
        }
        put_back(std::move(own));
    };
    const unsigned groups = blocks / grid.cluster, most = std::thread::hardware_concurrency();
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < most && i < groups; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
    return ended;
}

}  // namespace emulated
