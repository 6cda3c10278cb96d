// ItemQueue: gives items to threads in order, and delays those whose memory does not fit beside the
// running ones.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "analysis/replay/item_rows.h"

namespace apscope::detail {

class ItemQueue {
public:
    // The bytes that each item needs, and the limit for all items that run at once. An item that
    // needs more runs alone.
    ItemQueue(std::vector<std::size_t> needs, std::size_t budget);

    // Takes one item, waits for its memory, and processes it in a workspace, whose buffers the
    // thread uses meanwhile. Call it once per item, from any number of threads.
    void do_one(const std::function<void(std::size_t item, Workspace&)>& work);
    // Items from this one on wait for another such call, which must not depend on them. All are
    // open at first, and after an exception of `work`.
    void open_until(std::size_t end);

private:
    std::size_t first_that_fits();
    std::unique_ptr<Workspace> workspace_for(std::size_t need);
    void end(std::size_t charged, std::unique_ptr<Workspace> workspace);

    std::vector<std::size_t> needs_;
    std::size_t budget_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<char> taken_;
    std::size_t first_ = 0;  // all before are taken
    std::size_t open_;       // items before this one may begin
    bool failed_ = false;
    std::size_t running_ = 0;  // items
    std::size_t used_ = 0;     // by them, including what their workspaces held before
    std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace apscope::detail
