// What the classes that can be moved from share.
#pragma once

#include <memory>
#include <string>

#include "core/error.h"

namespace apscope {

// The data of an object of this class. Throws if the object was moved from.
template <class Data>
Data& held(const std::unique_ptr<Data>& data, const std::string& class_name) {
    if (!data)
        throw error("this " + class_name +
                    " was moved from; use the object that it was moved to, or assign another");
    return *data;
}

}  // namespace apscope
