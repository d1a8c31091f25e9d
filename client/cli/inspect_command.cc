#include "client/cli/commands.h"
#include "client/cli/console.h"

namespace lion {

int RunInspect(const std::string& path, const LoadOptions& options) {
  const InspectReport report = InspectModel(path, options);
  return Print(report.text, report.ok ? 0 : 1);
}

}  // namespace lion
