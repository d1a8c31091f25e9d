// How the control of models acts on a server that serves.
#pragma once

#include "server/model_control.h"
#include "server/readiness.h"
#include "server/start_up.h"

namespace lion {

// Loads with the options that the first models were started with, beside those that serve. What the arguments point to
// outlives the actions.
ModelControlActions MakeModelActions(const StartUpOptions* options, const SharedResources* shared,
                                     Readiness* readiness);

}  // namespace lion
