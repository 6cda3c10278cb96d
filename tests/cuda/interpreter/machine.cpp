#include "machine.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace apscope::interpreter {

void Memory::add(const void* begin, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uint64_t>(begin);
    ends_[first] = first + bytes;
}
void Memory::remove(const void* begin) { ends_.erase(reinterpret_cast<std::uint64_t>(begin)); }
std::size_t Memory::bytes_at(const void* begin) const {
    const auto at = ends_.find(reinterpret_cast<std::uint64_t>(begin));
    return at == ends_.end() ? 0 : at->second - at->first;
}
std::pair<std::uint64_t, std::uint64_t> Memory::around(std::uint64_t address) const {
    auto after = ends_.upper_bound(address);
    if (after == ends_.begin()) return {0, 0};
    --after;
    if (address >= after->second) return {0, 0};
    return {after->first, after->second};
}

void Counts::add(const Counts& other) {
    launches += other.launches;
    threads += other.threads;
    for (int c = 0; c < static_cast<int>(Class::size); ++c)
        instructions[c] += other.instructions[c];
    loaded_sectors += other.loaded_sectors;
    stored_sectors += other.stored_sectors;
    for (int k = 0; k < 5; ++k) loads_by_bytes[k] += other.loads_by_bytes[k];
    for (int k = 0; k < 5; ++k) stores_by_bytes[k] += other.stores_by_bytes[k];
}

namespace {

constexpr std::uint64_t most_instructions = 1ull << 33;  // of a warp; more are an endless loop

// The warps that one thread of the host runs, one after the other.
class Runner {
public:
    Runner(const Program& program, const Launch& launch, const Memory& memory)
        : program_(program), rows_(std::size_t{program.rows} * lanes),
          own_(std::size_t{program.lane_bytes} * lanes + 16), executed_(program.code.size()) {
        warp_.rows = rows_.data();
        warp_.memory = &memory;
        warp_.own_begin = (reinterpret_cast<std::uint64_t>(own_.data()) + 15) / 16 * 16;
        warp_.own_end = warp_.own_begin + std::uint64_t{program.lane_bytes} * lanes;
        warp_.counts = &counts_;
        for (std::size_t i = 0; i < program.parameters.size(); ++i) {
            const auto at = reinterpret_cast<std::uint64_t>(launch.arguments[i]);
            parameters_.emplace_back(at, at + program.parameters[i].bytes);
            fill(program.parameters[i].row, [&](int) { return at; });
        }
        warp_.parameters = &parameters_;
        for (const auto& [row, value] : program.constants) fill(row, [&](int) { return value; });
        for (const auto& [row, offset] : program.lane_addresses)
            fill(row, [&](int lane) {
                return warp_.own_begin + std::uint64_t{program.lane_bytes} * lane + offset;
            });
        special(Program::ntid, [&](int) { return launch.threads; });
        special(Program::nctaid, [&](int) { return launch.blocks; });
        special(Program::laneid, [&](int lane) { return lane; });
    }

    void run(std::uint32_t block, std::uint32_t first, std::uint32_t threads) {
        special(Program::ctaid, [&](int) { return block; });
        special(Program::tid, [&](int lane) { return first + lane; });
        warp_.alive = threads >= lanes ? ~0u : (1u << threads) - 1;
        std::fill(std::begin(pc_), std::end(pc_), program_.entry);
        std::uint64_t run = 0;
        while (warp_.alive != 0) {
            std::uint32_t at = ~0u, next = ~0u;
            each(warp_.alive, [&](int l) { at = std::min(at, pc_[l]); });
            warp_.active = 0;
            each(warp_.alive, [&](int l) {
                if (pc_[l] == at) warp_.active |= 1u << l;
                else next = std::min(next, pc_[l]);
            });
            run += straight(at, next);
            if (run > most_instructions) throw std::runtime_error("an endless loop");
        }
    }

    Counts counts() {
        for (std::size_t i = 0; i < executed_.size(); ++i)
            counts_.instructions[static_cast<int>(program_.code[i].cost)] += executed_[i];
        return counts_;
    }

private:
    template <class F>
    static void each(std::uint32_t mask, const F& f) {
        for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
    }
    template <class F>
    void fill(std::int32_t row, const F& value) {
        for (int lane = 0; lane < lanes; ++lane)
            warp_.row(row)[lane] = static_cast<std::uint64_t>(value(lane));
    }
    template <class F>
    void special(Program::Special which, const F& value) {
        if (program_.special[which] >= 0) fill(program_.special[which], value);
    }

    // Runs the active lanes from `at` on until their ways part or they meet the lanes at `next`.
    std::uint64_t straight(std::uint32_t at, std::uint32_t next) {
        const std::uint32_t together = warp_.active;
        std::uint64_t count = 0;
        for (; at != next; ++at) {
            const Op& op = program_.code[at];
            ++executed_[at];
            ++count;
            std::uint32_t chosen = together;
            if (op.guard >= 0) {
                const std::uint64_t* guard = warp_.row(op.guard);
                chosen = 0;
                each(together, [&](int l) { chosen |= ((guard[l] & 1) != op.negated) << l; });
            }
            if (op.kind == Op::Kind::plain) {
                if (chosen == 0) continue;
                warp_.active = chosen;
                try {
                    op.run(warp_, op);
                } catch (const std::exception& error) {
                    throw std::runtime_error(std::string(error.what()) + ", in " + op.text);
                }
                warp_.active = together;
                continue;
            }
            if (op.kind == Op::Kind::branch && op.targets.empty()) {
                if (chosen == 0) continue;
                if (chosen == together && op.target > at && op.target <= next) {
                    at = op.target - 1;
                    continue;
                }
            }
            move(op, at, chosen, together);
            return count;
        }
        each(together, [&](int l) { pc_[l] = at; });
        return count;
    }

    // Gives every lane its next address after an instruction that may part them.
    void move(const Op& op, std::uint32_t at, std::uint32_t chosen, std::uint32_t together) {
        each(together, [&](int l) { pc_[l] = at + 1; });
        each(chosen, [&](int l) {
            switch (op.kind) {
                case Op::Kind::branch:
                    pc_[l] =
                        op.targets.empty() ? op.target : op.targets.at(warp_.row(op.from[0])[l]);
                    break;
                case Op::Kind::call:
                    warp_.row(op.return_row)[l] = at + 1;
                    pc_[l] = op.target;
                    break;
                case Op::Kind::ret:
                    pc_[l] = static_cast<std::uint32_t>(warp_.row(op.return_row)[l]);
                    break;
                case Op::Kind::trap: throw std::runtime_error("a trap");
                default: warp_.alive &= ~(1u << l);
            }
        });
    }

    const Program& program_;
    std::vector<std::uint64_t> rows_;
    std::vector<std::byte> own_;
    std::vector<std::uint64_t> executed_;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> parameters_;
    std::uint32_t pc_[lanes] = {};
    Warp warp_;
    Counts counts_;
};

}  // namespace

Counts run(const Program& program, const Launch& launch, const Memory& memory) {
    const std::uint32_t warps = (launch.threads + lanes - 1) / lanes;
    const std::uint64_t all = std::uint64_t{launch.blocks} * warps;
    std::atomic<std::uint64_t> next{0};
    std::mutex mutex;
    Counts total;
    std::exception_ptr error;
    {
        std::vector<std::jthread> threads;
        const auto most = std::max<std::uint64_t>(1, std::thread::hardware_concurrency());
        for (std::uint64_t t = 0; t < std::min(all, most); ++t) {
            threads.emplace_back([&] {
                try {
                    Runner runner(program, launch, memory);
                    for (std::uint64_t w; (w = next.fetch_add(1)) < all;) {
                        const auto first = static_cast<std::uint32_t>(w % warps * lanes);
                        runner.run(static_cast<std::uint32_t>(w / warps), first,
                                   launch.threads - first);
                    }
                    const std::scoped_lock lock(mutex);
                    total.add(runner.counts());
                } catch (...) {
                    const std::scoped_lock lock(mutex);
                    error = std::current_exception();
                }
            });
        }
    }
    if (error) std::rethrow_exception(error);
    total.launches = 1;
    total.threads = std::uint64_t{launch.blocks} * launch.threads;
    return total;
}

}  // namespace apscope::interpreter
