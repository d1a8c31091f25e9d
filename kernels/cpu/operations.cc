#include "kernels/operations.h"

#include <cpuid.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "hwy/targets.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/matmul.h"

namespace lion {
namespace cpu {
namespace {

absl::Status Supports(const KernelNeeds& needs) {
  constexpr int64_t kMaxHeadWidth = 256, kMaxPatch = 64;
  if (needs.head_width < 1 || needs.head_width > kMaxHeadWidth) {
    return absl::UnimplementedError(
        absl::StrCat("head width ", needs.head_width, " is not supported by the CPU kernels: 1 to ", kMaxHeadWidth));
  }
  if (needs.patch_size > kMaxPatch) {
    return absl::UnimplementedError(
        absl::StrCat("patch size ", needs.patch_size, " is not supported by the CPU kernels: up to ", kMaxPatch));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<KernelContext>> MakeContext(const ContextOptions& options) {
  try {
    return std::make_unique<CpuContext>(options);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the scratch of sequences of ", options.max_tokens, " tokens"));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start ", options.threads, " threads: ", error.what()));
  }
}

absl::StatusOr<std::unique_ptr<PackedLinear>> PackLinear(const LinearPack& pack) { return Matmul::Create(pack); }

Operations Common() {
  Operations table;
  table.supports = Supports;
  table.make_context = MakeContext;
  table.pack_linear = PackLinear;
  return table;
}

Operations ScalarTable() {
  Operations table = Common();
  scalar::ExportLinear(table);
  scalar::ExportMixer(table);
  scalar::ExportVision(table);
  scalar::ExportText(table);
  table.name = "scalar";
  return table;
}

// The vector kernels of the best of `targets` that this processor has.
Operations VectorTable(int64_t targets, std::string name) {
  // Highway takes the targets it is given for supported, whatever the processor says.
  hwy::SetSupportedTargetsForTest(targets & hwy::SupportedTargets());
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  Operations table = Common();
  vector::ExportLinear(table);
  vector::ExportMixer(table);
  vector::ExportVision(table);
  vector::ExportText(table);
  table.name = std::move(name);
  hwy::SetSupportedTargetsForTest(0);
  return table;
}

struct Leaf7 {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};
Leaf7 CpuidLeaf7(uint32_t subleaf) {
  Leaf7 leaf;
  __get_cpuid_count(7, subleaf, &leaf.eax, &leaf.ebx, &leaf.ecx, &leaf.edx);
  return leaf;
}

// A bit of cpuid says what the processor has; Highway also asks whether the system saves the registers.
bool HasTarget(int64_t target) { return (hwy::SupportedTargets() & target) != 0; }
bool HasAmxBFloat16() { return HasTarget(HWY_AVX3) && (CpuidLeaf7(0).edx >> 22 & 1) != 0; }
bool HasAvx512BFloat16() { return HasTarget(HWY_AVX3) && (CpuidLeaf7(1).eax >> 5 & 1) != 0; }

// Highway gives better targets lower bits: these are the targets from the named one down to its baseline.
constexpr int64_t kUpToAvx3 = ~static_cast<int64_t>(HWY_AVX3 - 1);
constexpr int64_t kUpToAvx2 = ~static_cast<int64_t>(HWY_AVX2 - 1);

std::string BestName() {
  if (HasAmxBFloat16()) return "avx512+amx";
  if (HasAvx512BFloat16()) return "avx512+bf16";
  return HasTarget(HWY_AVX3) ? "avx512" : HasTarget(HWY_AVX2) ? "avx2" : "baseline";
}

}  // namespace
}  // namespace cpu

bool CpuHasFastBFloat16() { return cpu::HasAmxBFloat16() || cpu::HasAvx512BFloat16(); }

absl::StatusOr<const Operations*> CpuOperations(const std::string& isa) {
  static std::mutex mutex;
  static auto* const tables = new std::map<std::string, std::unique_ptr<Operations>>();
  std::lock_guard<std::mutex> lock(mutex);
  if (isa != "auto" && isa != "scalar" && isa != "avx2" && isa != "avx512") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown instruction set '", isa, "': auto, scalar, avx2 or avx512"));
  }
  if (const auto found = tables->find(isa); found != tables->end()) return found->second.get();
  if ((isa == "avx2" && !cpu::HasTarget(HWY_AVX2)) || (isa == "avx512" && !cpu::HasTarget(HWY_AVX3))) {
    return absl::InvalidArgumentError(
        absl::StrCat("this processor has no ", isa, "; the best it has is ", cpu::BestName()));
  }
  if (absl::Status status = cpu::LimitMatmulIsa(isa.c_str()); !status.ok()) return status;
  auto table =
      std::make_unique<Operations>(isa == "scalar" ? cpu::ScalarTable()
                                                   : cpu::VectorTable(isa == "avx2" ? cpu::kUpToAvx2 : cpu::kUpToAvx3,
                                                                      isa == "auto" ? cpu::BestName() : isa));
  return tables->emplace(isa, std::move(table)).first->second.get();
}

}  // namespace lion
