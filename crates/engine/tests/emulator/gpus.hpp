// The GPUs that there are, and their memory.
//
// EMULATED_GPUS    their compute capabilities, such as 8.0,9.0 (default 9.0)
// EMULATED_MEMORY  MiB of each (default 4096)
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace {

struct Gpu {
    int major, minor;
    size_t memory;                  // bytes
    std::map<void*, size_t> taken;  // bytes by address
    size_t used = 0;                // bytes
    bool launched = false;
    std::mutex lock;

    bool take(void* at, size_t bytes) {
        std::lock_guard<std::mutex> own(lock);
        if (used + bytes > memory) return false;
        used += taken[at] = bytes;
        return true;
    }

    // Does nothing with what is another's.
    void give_back(void* at) {
        std::lock_guard<std::mutex> own(lock);
        auto found = taken.find(at);
        if (found == taken.end()) return;
        used -= found->second;
        taken.erase(found);
    }
};

std::string variable(const char* name, const char* usual) {
    const char* value = getenv(name);
    return value ? value : usual;
}

std::deque<Gpu>& gpus() {
    static std::deque<Gpu> all;
    static std::once_flag once;
    std::call_once(once, [] {
        std::string list = variable("EMULATED_GPUS", "9.0");
        size_t memory = (size_t)atoi(variable("EMULATED_MEMORY", "4096").c_str()) << 20;
        int major, minor, length;
        for (const char* at = list.c_str(); sscanf(at, "%d.%d%n", &major, &minor, &length) == 2;) {
            all.emplace_back();
            all.back().major = major;
            all.back().minor = minor;
            all.back().memory = memory;
            at += length;
            if (*at == ',') ++at;
        }
    });
    return all;
}

}  // namespace
