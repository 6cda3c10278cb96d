// The queue that analysis/cuda/device_rows.h needs, in the host's memory: steps run item by item,
// the last first, because a step must not depend on the order. Tests use it instead of a GPU, and
// on a GPU as the reference. A device may run copies and steps that do not wait for each other in
// any order; here either the copies or the steps run as late as is allowed.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "analysis/cuda/device_rows.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail::test {

enum class Late { copies, work };

class HostQueue {
public:
    // room: the bytes of memory; beyond them allocations fail as on a full GPU.
    explicit HostQueue(std::uint64_t room = ~std::uint64_t{0}, Late late = Late::work)
        : room_(room), late_(late) {}

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
        if (n == 0) return;
        run(Late::copies, [values = std::vector<T>(host, host + n), to] {
            std::memcpy(to, values.data(), values.size() * sizeof(T));
        });
    }
    template <class Step>
    void launch(const Step& step) {
        run(Late::work, [step] { run_on_cpu(step); });
    }
    template <class T>
    class Landing {
    public:
        explicit Landing(HostQueue& queue) : queue_(&queue) {}
        std::span<const T> get() const {
            queue_->copies_wait_for_work();
            return *values;
        }
        std::shared_ptr<std::vector<T>> values = std::make_shared<std::vector<T>>();

    private:
        HostQueue* queue_;
    };
    template <class T>
    Landing<T> read(const T* from, std::uint64_t n) {
        Landing<T> landing(*this);
        run(Late::work, [from, n, to = landing.values] { to->assign(from, from + n); });
        return landing;
    }
    void work_waits_for_copies() {
        if (late_ == Late::copies) finish();
    }
    void copies_wait_for_work() {
        if (late_ == Late::work) finish();
    }
    void finish() {
        for (const std::function<void()>& action : std::exchange(waiting_, {})) action();
    }

private:
    void run(Late kind, std::function<void()> action) {
        if (kind == late_) waiting_.push_back(std::move(action));
        else action();
    }

    std::uint64_t room_;
    Late late_;
    std::vector<std::function<void()>> waiting_;
};

struct MakeHostQueue {
    std::uint64_t room = ~std::uint64_t{0};
    Late late = Late::work;
    HostQueue operator()() const { return HostQueue(room, late); }
};
using HostRows = DeviceRows<MakeHostQueue>;

// A device that counts its tasks.
class CountedRows : public RowDevice {
public:
    explicit CountedRows(std::uint64_t memory, Late late = Late::work, std::uint64_t min_values = 0)
        : RowDevice(min_values), rows_({.late = late}, memory) {}
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
