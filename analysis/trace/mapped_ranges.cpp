#include "analysis/trace/mapped_ranges.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace apscope::detail {
namespace {

// A signal handler may not allocate or lock, so it reads tables that are never freed and whose
// entries are reused.
struct Range {
    std::atomic<std::uintptr_t> begin{0};  // 0: unused
    std::atomic<std::size_t> length{0};
    std::atomic<std::atomic<bool>*> cut{nullptr};
};
struct Table {
    std::array<Range, 512> ranges;
    std::atomic<Table*> next{nullptr};
};
Table first_table;
std::mutex writing;

std::uintptr_t page_size = 0;
struct sigaction before;

const Range* range_of(std::uintptr_t address) {
    for (const Table* table = &first_table; table != nullptr;
         table = table->next.load(std::memory_order_acquire)) {
        for (const Range& range : table->ranges) {
            const std::uintptr_t begin = range.begin.load(std::memory_order_acquire);
            if (begin != 0 && begin <= address &&
                address - begin < range.length.load(std::memory_order_acquire))
                return &range;
        }
    }
    return nullptr;
}

void pass_on(int signal, siginfo_t* about, void* context) {
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(signal, about, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {  // the default action, as if there were no handler: the process ends
        ::signal(signal, SIG_DFL);
        ::raise(signal);
    }
}

void on_bus_error(int signal, siginfo_t* about, void* context) {
    const int error = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(about->si_addr);
    const Range* range =
        about->si_code > 0 ? range_of(address) : nullptr;  // 0 or less: a process sent the signal
    if (range != nullptr) {
        const std::uintptr_t page = address / page_size * page_size;
        const std::size_t rest = range->begin.load() + range->length.load() - page;
        void* const zeros = ::mmap(reinterpret_cast<void*>(page), rest, PROT_READ,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (zeros == MAP_FAILED) range = nullptr;
        else range->cut.load()->store(true, std::memory_order_relaxed);
    }
    if (range == nullptr) pass_on(signal, about, context);
    errno = error;
}

void install() {
    page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction ours{};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&ours.sa_mask);
    ::sigaction(SIGBUS, &ours, &before);
}

Range& free_range() {
    for (Table* table = &first_table;; table = table->next.load()) {
        for (Range& range : table->ranges) {
            if (range.begin.load() == 0) return range;
        }
        if (table->next.load() == nullptr) table->next.store(new Table, std::memory_order_release);
    }
}

}  // namespace

void remember_range(const void* begin, std::size_t length, std::atomic<bool>* cut) {
    static std::once_flag installed;
    std::call_once(installed, install);
    const std::lock_guard lock(writing);
    Range& range = free_range();
    range.cut.store(cut, std::memory_order_release);
    range.length.store(length, std::memory_order_release);
    range.begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_release);
}

void forget_range(const void* begin) {
    const std::lock_guard lock(writing);
    for (Table* table = &first_table; table != nullptr; table = table->next.load()) {
        for (Range& range : table->ranges) {
            if (range.begin.load() == reinterpret_cast<std::uintptr_t>(begin))
                return range.begin.store(0, std::memory_order_release);
        }
    }
}

}  // namespace apscope::detail
