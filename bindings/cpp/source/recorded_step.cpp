#include "bindings/cpp/source/recorded_step.h"

namespace apscope {
namespace {

using detail::Kind;

bool is_per_step(Kind kind) { return kind == Kind::weights || kind == Kind::full_batch; }

}  // namespace

bool is_of_layers(Kind kind) {
    return kind == Kind::activation_gradient || kind == Kind::layer_input;
}

Shapes RecordedStep::Group::shapes() const {
    Shapes all;
    for (const RecordedTensor& tensor : tensors) all.emplace_back(tensor.name, tensor.shape);
    return all;
}

bool RecordedStep::add(Kind kind, int worker, RecordedTensor tensor) {
    const int rank = is_per_step(kind) ? 0 : worker;
    const auto [place, is_new] = places_.try_emplace({kind, rank}, groups_.size());
    if (is_new) groups_.push_back({kind, rank});
    Group& group = groups_[place->second];
    if (!group.names.insert(tensor.name).second) return false;
    group.tensors.push_back(std::move(tensor));
    return true;
}

bool RecordedStep::has_gradients(int worker) const {
    return places_.contains({Kind::gradient, worker});
}

Shapes RecordedStep::shapes(const Shapes& expected, std::int64_t number) const {
    const std::string at = " at step " + std::to_string(number);
    Shapes found;
    const auto check = [&](const Group& group, const std::string& what) {
        Shapes own = group.shapes();
        compare(own, !expected.empty() ? expected : !found.empty() ? found : own, what + at);
        return own;
    };
    for (const Group& group : groups_)
        if (group.kind == Kind::gradient)
            found = check(group, "worker " + std::to_string(group.worker));
    for (const Group& group : groups_)
        if (is_per_step(group.kind)) check(group, std::string(detail::to_string(group.kind)));
    return found;
}

std::map<std::string, SafetensorsContent> RecordedStep::files(std::int64_t number,
                                                              const std::string& stage) const {
    std::map<std::string, SafetensorsContent> all;
    for (const Group& group : groups_) {
        Json about{{"step", std::to_string(number)}, {"stage", stage}};
        if (!is_per_step(group.kind)) about["worker"] = std::to_string(group.worker);
        SafetensorsContent& file = all[detail::file_name(group.kind, group.worker)];
        file.about = std::move(about);
        const std::string prefix =
            is_of_layers(group.kind) ? std::string(detail::to_string(group.kind)) + "/" : "";
        for (const RecordedTensor& tensor : group.tensors)
            file.tensors.emplace_back(prefix + tensor.name, &tensor);
    }
    return all;
}

}  // namespace apscope
