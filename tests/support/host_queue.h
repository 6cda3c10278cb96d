// The queue that analysis/cuda/device_rows.h needs, in the host's memory: steps run item by item,
// the last first, because a step must not depend on the order. Tests use it instead of a GPU, and
// on a GPU as the reference.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "analysis/cuda/device_rows.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail::test {

class HostQueue {
public:
    // room: the bytes of memory; beyond them allocations fail as on a full GPU.
    explicit HostQueue(std::uint64_t room = ~std::uint64_t{0}) : room_(room) {}

    template <class T>
    class Memory {
    public:
        explicit Memory(std::uint64_t n)
            : bytes_(n * sizeof(T), std::byte{0xA5}) {
        }  // elements that are not written become visible
        T* get() const { return reinterpret_cast<T*>(const_cast<std::byte*>(bytes_.data())); }

    private:
        std::vector<std::byte> bytes_;
    };
    template <class T>
    Memory<T> allocate(std::uint64_t n) {
        if (n * sizeof(T) > room_) throw std::bad_alloc();
        return Memory<T>(n);
    }
    template <class T>
    void copy(const T* host, std::uint64_t n, T* to) {
        if (n != 0) std::memcpy(to, host, n * sizeof(T));
    }
    template <class T>
    std::vector<T> read(const T* from, std::uint64_t n) {
        return {from, from + n};
    }
    template <class Step>
    void launch(const Step& step) {
        run_on_cpu(step);
    }

private:
    std::uint64_t room_;
};

struct MakeHostQueue {
    std::uint64_t room = ~std::uint64_t{0};
    HostQueue operator()() const { return HostQueue(room); }
};
using HostRows = DeviceRows<MakeHostQueue>;

// A device that counts its tasks.
class CountedRows : public RowDevice {
public:
    explicit CountedRows(std::uint64_t memory) : rows_(MakeHostQueue{}, memory) {}
    std::vector<RowTotals> run(std::span<const std::span<const float>> gradients, double divisor,
                               std::span<const double> noise,
                               std::span<const RowTask> tasks) override {
        tasks_ += tasks.size();
        return rows_.run(gradients, divisor, noise, tasks);
    }
    std::size_t tasks() const { return tasks_; }

private:
    HostRows rows_;
    std::size_t tasks_ = 0;
};

}  // namespace apscope::detail::test
