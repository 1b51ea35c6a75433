// SPDX-License-Identifier: Apache-2.0
#include "ui/application.h"

#include <QApplication>
#include <QIcon>
#include <QSurfaceFormat>
#include <QTimer>

#include "application_setup.h"
#include "base/version.h"
#include "main_window.h"
#include "startup_watch.h"
#include "ui_thread.h"
#include "visible_focus.h"

namespace headscope::ui {

void PrepareApplication() {
  // Floating a dock moves the canvas to another window: with shared contexts its GL objects stay valid.
  QCoreApplication::setAttribute(Qt::AA_ShareOpenGLContexts);
  QSurfaceFormat format;
  format.setVersion(3, 3);
  format.setProfile(QSurfaceFormat::CoreProfile);
  format.setAlphaBufferSize(8);
  QSurfaceFormat::setDefaultFormat(format);
}

void NameApplication() {
  QApplication::setApplicationName(QStringLiteral("headscope"));
  QApplication::setDesktopFileName(QStringLiteral("headscope"));
  QApplication::setApplicationVersion(QString::fromUtf8(Version()));
  QApplication::setStyle(MakeApplicationStyle());
  QApplication::setWindowIcon(QIcon(QStringLiteral(":/headscope/shell/headscope.svg")));
}

int RunApplication(int& argc, char** argv, const ApplicationOptions& options, const WorkbenchFactory& make_workbench) {
  PrepareApplication();
  QApplication application(argc, argv);
  NameApplication();

  UiThread ui_thread;
  const std::unique_ptr<Workbench> workbench =
      make_workbench([&ui_thread](std::function<void()> function) { ui_thread.Post(std::move(function)); });
  MainWindow window(workbench.get(), Session::DefaultPath());
  StartupWatch::FromEnvironment(&window);
  window.show();
  // The window is up before anything is read.
  QTimer::singleShot(0, &window, [&] {
    window.OpenAtStart(QString::fromStdString(options.open_path), QString::fromStdString(options.shipped_trace));
    window.theme()->FollowDesktop();
  });
  return QApplication::exec();
}

}  // namespace headscope::ui
