"""A Django site as its manual writes one: the default middleware with accounts, sessions, forms and messages, the page cache, conditional GET,
and languages.

Its database and files are in the folder `SITE_FOLDER`; the users are `anna.meier` and `berta.kunz`, with the password `geheim`.
`/count` tells how many other requests have reached it. `/fail?status=N` has every page answer with that status, and `/fail` ends that.
"""

import os
import threading
from pathlib import Path

import django
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.translation import get_language

FOLDER = Path(os.environ["SITE_FOLDER"])
lock = threading.Lock()
state = {"seen": 0, "status": None}

settings.configure(
    SECRET_KEY="for a test",
    ALLOWED_HOSTS=["127.0.0.1", "h", "example.com"],
    ROOT_URLCONF=__name__,
    USE_TZ=True,
    USE_I18N=True,
    LANGUAGES=[("en", "English"), ("de", "Deutsch")],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "site.sqlite3", "OPTIONS": {"timeout": 60}}},
    CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
    LOGIN_URL="/login/",
    LOGIN_REDIRECT_URL="/account/",
    STATIC_URL="/static/",
    STATIC_ROOT=FOLDER / "static",
    MEDIA_URL="/media/",
    MEDIA_ROOT=FOLDER / "media",
    INSTALLED_APPS=[f"django.contrib.{it}" for it in ["admin", "auth", "contenttypes", "sessions", "messages", "staticfiles"]],
    MIDDLEWARE=[
        f"{__name__}.fault",
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
        "django.middleware.locale.LocaleMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "DIRS": [Path(__file__).parent / "django_templates"],
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
)
django.setup()

from django.contrib.auth.decorators import login_required  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.contrib.auth.views import LoginView, LogoutView  # noqa: E402
from django.contrib.staticfiles.views import serve  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.shortcuts import render  # noqa: E402
from django.urls import include, path  # noqa: E402
from django.utils.timezone import datetime, utc  # noqa: E402
from django.views.decorators.cache import cache_control, cache_page, never_cache  # noqa: E402
from django.views.decorators.csrf import csrf_protect  # noqa: E402
from django.views.decorators.http import last_modified  # noqa: E402
from django.views.decorators.vary import vary_on_cookie  # noqa: E402


def fault(get_response):
    """Counts requests, and answers with the status that `/fail` has set."""

    def answer(request):
        if request.path not in ("/count", "/fail", "/login/"):
            with lock:
                state["seen"] += 1
            if state["status"]:
                return HttpResponse("out of order", status=state["status"])
        return get_response(request)

    return answer


@never_cache
def count(_request):
    return JsonResponse({"seen": state["seen"]})


@never_cache
def fail(request):
    state["status"] = int(request.GET["status"]) if "status" in request.GET else None
    return HttpResponse()


def account(request):
    return render(request, "account.html")


def say(request):
    """The message is shown by the next page of the visitor, and no other."""
    messages.success(request, f"Saved by {request.user.username or 'stranger'}")
    return HttpResponseRedirect("/messages/")


def language(request):
    return HttpResponse(f"Sprache: {get_language()}, {request.user.username or 'stranger'}")


def news(_request):
    return HttpResponse("<h1>News for all</h1>")


def greeting(request, _rest):
    """A page for all visitors without a session, and one for each user."""
    return HttpResponse(f"for {request.user.username or 'all'}")


def cookies(request):
    return HttpResponse(request.META.get("HTTP_COOKIE", "nothing"))


def dated(*_args):
    return datetime(2015, 1, 1, tzinfo=utc)


urlpatterns = [
    path("count", count),
    path("fail", fail),
    path("login/", LoginView.as_view(template_name="account.html")),
    path("logout/", LogoutView.as_view(next_page="/account/")),
    path("i18n/", include("django.conf.urls.i18n")),
    path("account/", account),
    path("dated/", last_modified(dated)(account)),
    path("members/", login_required(account)),
    path("never/", never_cache(account)),
    path("private/", cache_control(private=True, max_age=600)(account)),
    path("varied/", cache_control(public=True, max_age=600)(vary_on_cookie(account))),
    # As the manual says for a page of a visitor: without `vary_on_cookie` inside, Django itself gives it to every visitor.
    path("cached/", cache_page(600)(csrf_protect(vary_on_cookie(account)))),
    path("page/<path:_rest>", greeting),
    path("address/", lambda request: HttpResponse(request.build_absolute_uri())),
    path("cookies/", vary_on_cookie(cookies)),
    path("messages/", account),
    path("say/", say),
    path("language/", language),
    path("news/", cache_control(public=True, max_age=600)(news)),
    path("news/cached/", cache_page(600)(news)),
    # What `runserver` does; in production a web server has them.
    path("static/<path:path>", serve, {"insecure": True}),
]

call_command("migrate", verbosity=0, run_syncdb=True)
call_command("collectstatic", verbosity=0, interactive=False)
for name in ("anna.meier", "berta.kunz"):
    User.objects.create_user(name, password="geheim")
app = get_wsgi_application()
