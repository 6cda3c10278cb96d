// The tensors of a step that are recorded and not yet written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/trace/trace_manifest.h"
#include "bindings/cpp/source/safetensors_writer.h"
#include "bindings/cpp/source/shapes.h"

namespace apscope {

bool is_of_layers(detail::Kind kind);  // its names are those of layers

class RecordedStep {
public:
    // Adds a tensor of a kind and a worker; for kinds that exist once per step, all workers are
    // one. Returns false, and adds nothing, if there is a tensor of this name.
    bool add(detail::Kind kind, int worker, RecordedTensor tensor);

    bool has_gradients(int worker) const;

    // The shapes of the gradients. Throws apscope::error if a worker's gradients, or the weights,
    // differ from the `expected` ones, or, without these, from those of the first worker.
    Shapes shapes(const Shapes& expected, std::int64_t number) const;

    // The step's files by their names; they refer to the tensors of this object.
    std::map<std::string, SafetensorsContent> files(std::int64_t number,
                                                    const std::string& stage) const;

private:
    struct Group {
        detail::Kind kind;
        int worker;  // 0 if the kind exists once per step
        std::vector<RecordedTensor> tensors = {};
        std::set<std::string> names = {};

        Shapes shapes() const;
    };

    std::vector<Group> groups_;  // in the order in which they were begun
    std::map<std::pair<detail::Kind, int>, std::size_t> places_;
};

}  // namespace apscope
