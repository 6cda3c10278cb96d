// One macro, which exports names of the library; all others are hidden.
#pragma once

#define APSCOPE_API __attribute__((visibility("default")))
