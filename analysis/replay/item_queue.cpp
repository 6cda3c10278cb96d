#include "analysis/replay/item_queue.h"

#include <algorithm>
#include <utility>

namespace apscope::detail {

ItemQueue::ItemQueue(std::vector<std::size_t> needs, std::size_t budget)
    : needs_(std::move(needs)), budget_(budget), taken_(needs_.size(), 0), open_(needs_.size()) {}

std::size_t ItemQueue::first_that_fits() {
    while (first_ < needs_.size() && taken_[first_]) ++first_;
    for (std::size_t i = first_; i < open_; ++i) {
        if (!taken_[i] && (running_ == 0 || needs_[i] <= budget_ - std::min(budget_, used_)))
            return i;
    }
    return needs_.size();
}

// Idle workspaces keep their memory for the next item while half of the budget is free. The limit
// is necessary because the next item may need buffers of other lengths, and because an item also
// allocates memory outside of its workspace.
std::unique_ptr<Workspace> ItemQueue::workspace_for(std::size_t need) {
    std::unique_ptr<Workspace> mine;
    if (idle_.empty()) {
        mine = std::make_unique<Workspace>();
    } else {
        mine = std::move(idle_.back());
        idle_.pop_back();
    }
    std::size_t all = used_ + std::max(need, mine->buffers.held());
    for (const std::unique_ptr<Workspace>& other : idle_) all += other->buffers.held();
    if (all > budget_ / 2) {
        for (const std::unique_ptr<Workspace>& other : idle_) other->buffers.trim(0);
        mine->buffers.trim(need);
    }
    return mine;
}

void ItemQueue::end(std::size_t charged, std::unique_ptr<Workspace> workspace) {
    {
        const std::lock_guard lock(mutex_);
        --running_;
        used_ -= charged;
        if (workspace) idle_.push_back(std::move(workspace));
    }
    changed_.notify_all();
}

void ItemQueue::open_until(std::size_t end) {
    {
        const std::lock_guard lock(mutex_);
        if (!failed_) open_ = end;
    }
    changed_.notify_all();
}

void ItemQueue::do_one(const std::function<void(std::size_t item, Workspace&)>& work) {
    std::size_t item = 0, charged = 0;
    std::unique_ptr<Workspace> workspace;
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return (item = first_that_fits()) < needs_.size(); });
        workspace = workspace_for(needs_[item]);
        charged = std::max(needs_[item], workspace->buffers.held());
        taken_[item] = 1;
        ++running_;
        used_ += charged;
    }
    try {
        const UsesBuffers uses(workspace->buffers);
        work(item, *workspace);
    } catch (...) {
        {
            const std::lock_guard lock(mutex_);
            failed_ = true;
            open_ = needs_.size();  // otherwise items could wait for ever
        }
        end(charged, nullptr);
        throw;
    }
    end(charged, std::move(workspace));
}

}  // namespace apscope::detail
