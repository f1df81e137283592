// What threads ask of the device besides arithmetic: values of their warp, products of the tensor cores,
// and copies, which happen at once or as late as they may.
#include <string.h>

#include "machine.hpp"

namespace emulated {

namespace {

constexpr uint32_t DEVICE_NAN = 0x7fffffff;

void carry_out(const Copy& copy) {
    memcpy(copy.to, copy.from, copy.bytes);
    memset((char*)copy.to + copy.bytes, 0, copy.size - copy.bytes);
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

}  // namespace

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
    self->products.push_back(Product{c, eights, &a, tile, first, self->product_group});
}

void finish_products(int but) {
    Fiber* self = machine->running;
    const int column = self->thread.x % LANES / 4, term = self->thread.x % 4;
    const int kept = ++self->product_group - but;
    while (!self->products.empty() && self->products.front().group < kept) {
        const Product product = self->products.front();
        self->products.erase(self->products.begin());
        for (int j = 0; j < product.eights; ++j) {
            const float* row = product.tile + 32 * (8 * j + column);
            uint32_t b[2];
            for (int i = 0; i < 2; ++i) {
                const int k = product.first + term + 4 * i;
                memcpy(&b[i], row + ((k / 4) ^ column) * 4 + k % 4, sizeof b[i]);
            }
            multiply(product.c[j], *product.a, b);
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

}  // namespace emulated
