#include <cstdio>

#include "client/cli/commands.h"

namespace lion {

int RunInspect(const std::string& path, const LoadOptions& options) {
  const InspectReport report = InspectModel(path, options);
  std::fputs(report.text.c_str(), stdout);
  if (!report.text.empty() && report.text.back() != '\n') std::fputc('\n', stdout);
  return report.ok ? 0 : 1;
}

}  // namespace lion
