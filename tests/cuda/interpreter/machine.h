// Runs a kernel, warp by warp, on the host's memory: a GPU in software that shows what compiled
// device code computes, where it reads and writes, and how many instructions it needs.
//
// The 32 lanes of a warp run in step as far as they go the same way: the lanes with the lowest
// address run until they meet the next ones. Functions lie before their callers, and nvcc puts the
// two ways of a branch before the place where they meet, so lanes that part meet again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program.h"

namespace apscope::interpreter {

inline constexpr int lanes = 32;

// The memory that kernels may access, as the runtime allocated it.
class Memory {
public:
    void add(const void* begin, std::size_t bytes);
    void remove(const void* begin);
    std::size_t bytes_at(const void* begin) const;  // of the allocation that begins there, or 0
    // The allocation that has the address: begin and end; two zeros if none has.
    std::pair<std::uint64_t, std::uint64_t> around(std::uint64_t address) const;

private:
    std::map<std::uint64_t, std::uint64_t> ends_;  // by begin
};

// What a launch needed. A warp's instruction counts once, whatever its active lanes.
struct Counts {
    std::uint64_t launches = 0, threads = 0;
    std::uint64_t instructions[static_cast<int>(Class::size)] = {};
    std::uint64_t loaded_sectors = 0, stored_sectors = 0;  // of 32 bytes, of the device's memory
    std::uint64_t loads_by_bytes[5] = {}, stores_by_bytes[5] = {};  // accesses of 1, 2, 4, 8, 16

    void add(const Counts& other);
};

struct Warp {
    std::uint64_t* rows = nullptr;  // row r has its 32 numbers at rows + 32 * r
    std::uint32_t active = 0, alive = 0;
    std::uint32_t carry = 0;  // a bit a lane
    const Memory* memory = nullptr;
    std::uint64_t known_begin = 0, known_end = 0;  // the allocation of the last access
    std::uint64_t own_begin = 0, own_end = 0;      // the lanes' memory
    const std::vector<std::pair<std::uint64_t, std::uint64_t>>* parameters = nullptr;
    Counts* counts = nullptr;

    std::uint64_t* row(std::int32_t r) const { return rows + lanes * r; }
};

struct Launch {
    std::uint32_t blocks = 0, threads = 0;  // threads of a block
    void** arguments = nullptr;
};

// Runs a launch on all processors. Throws std::runtime_error for an access outside of `memory`, a
// misaligned access, a shuffle without the other lanes, a trap, or an endless loop.
Counts run(const Program& program, const Launch& launch, const Memory& memory);

}  // namespace apscope::interpreter
