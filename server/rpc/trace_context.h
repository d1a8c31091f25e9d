// W3C Trace Context, level 1: which trace a request belongs to.
#pragma once

#include <string_view>

namespace lion {

// The trace id of a `traceparent` header: 32 hexadecimal digits in lower case, a part of what is given. Empty where the
// header is not as the standard says, which then tells callers to act as if there were none.
std::string_view TraceIdOf(std::string_view traceparent);

}  // namespace lion
