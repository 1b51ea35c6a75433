// SPDX-License-Identifier: Apache-2.0
// How the program's application is made, whoever runs its event loop.
#pragma once

namespace headscope::ui {

void PrepareApplication();  // before QApplication is made
void NameApplication();     // after

}  // namespace headscope::ui
