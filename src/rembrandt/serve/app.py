"""The service as an ASGI application: routes, put together with what they need."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from rembrandt import __version__
from rembrandt.serve import schemas
from rembrandt.serve.answering import Answer, Question, answer
from rembrandt.serve.assets import Assets
from rembrandt.serve.batching import Batcher
from rembrandt.serve.guard import LOOPBACK, Guard
from rembrandt.serve.layouts import Layouts
from rembrandt.serve.limits import Limits
from rembrandt.serve.metrics import Metrics
from rembrandt.serve.reading import FORM, JSON, expect, form, fraction, whole
from rembrandt.serve.refusals import Refusal, documented
from rembrandt.serve.registry import Registry, Served
from rembrandt.serve.replies import HANDLERS, finite, json_reply

_LABEL_LIMIT, _MAP_LIMIT = 1000, 200_000

ModelName = Annotated[str | None, Query(description="Which model; the first of the service when not given.")]


def create_app(
    paths: Mapping[str, Path],
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    token: str | None = None,
    any_host: bool = False,
) -> Guard:
    """The service for the models in these folders; the first is the one meant where none is named.

    With ``any_host`` it answers whatever name it is called by; otherwise, without a token, only loopback's names.
    """
    metrics = Metrics()
    service = Service(Registry(paths, metrics), limits, metrics, token is not None)
    hosts = None if any_host or token is not None else LOOPBACK
    return Guard(service.routes(), limits, metrics, token, hosts)


class Service:
    """The routes and what they share."""

    def __init__(self, registry: Registry, limits: Limits, metrics: Metrics, has_token: bool) -> None:
        self.registry, self.limits, self.metrics, self.has_token = registry, limits, metrics, has_token
        self.batcher = Batcher(answer, limits, metrics)
        self.layouts = Layouts()
        self.assets = Assets()
        self.ready = False

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        for served in self.registry:
            self.layouts.begin(served)
        self.ready = True
        yield
        self.ready = False
        await self.batcher.close()
        await self.layouts.close()

    def routes(self) -> FastAPI:
        app = FastAPI(
            title="Rembrandt",
            version=__version__,
            description="Extreme classification through label embeddings. Every refusal has one shape and a sentence.",
            docs_url=None,  # FastAPI's own pages load scripts from elsewhere
            redoc_url=None,
            lifespan=self.lifespan,
            exception_handlers=HANDLERS,
        )

        def route(method: str, path: str, handler: Callable[..., Any], *statuses: int, **more: Any) -> None:
            app.add_api_route(path, handler, methods=[method], responses=documented(*statuses), **more)

        post_json = {"openapi_extra": _body(JSON, schemas.PredictRequest.model_json_schema())}
        post_form = {"openapi_extra": _body(FORM, _SUGGEST_FORM)}
        route(
            "POST", "/v1/predict", self.predict, 404, 415, 422, 503, response_model=schemas.PredictResponse, **post_json
        )
        route("GET", "/v1/labels", self.labels, 404, 422, response_model=schemas.LabelsResponse)
        route(
            "GET",
            "/v1/labels/{label:path}/neighbors",
            self.neighbors,
            404,
            422,
            response_model=schemas.NeighborsResponse,
        )
        route("GET", "/v1/map", self.map, 404, 422, response_model=schemas.MapResponse)
        route("GET", "/v1/models", self.models, response_model=schemas.ModelsResponse)
        route("GET", "/v1/models/{name}", self.model, 404, response_model=schemas.ModelDetails)
        route("POST", "/v1/models/{name}/reload", self.reload, 404, 409, 422, response_model=schemas.ModelSummary)
        route("GET", "/v1/projects/{name}", self.project, 404, response_model=schemas.Project)
        route(
            "POST",
            "/v1/projects/{name}/suggest",
            self.suggest,
            404,
            415,
            422,
            503,
            response_model=schemas.Suggestions,
            **post_form,
        )
        route("GET", "/healthz", self.healthz, response_model=schemas.State)
        route("GET", "/readyz", self.readyz, 503, response_model=schemas.State)
        app.add_api_route("/metrics", self.prometheus, methods=["GET"], include_in_schema=False)
        app.add_api_route("/", self.page, methods=["GET"], include_in_schema=False)
        app.add_api_route("/page/{file}", self.page, methods=["GET"], include_in_schema=False)
        if self.has_token:
            described = app.openapi()
            described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            described["security"] = [{"token": []}]
        return app

    async def predict(self, request: Request) -> Response:
        """The best labels of texts or vectors."""
        expect(request, JSON)
        asked = schemas.PredictRequest.model_validate_json(await request.body())
        served = self.registry.get(asked.model)
        question = Question(
            served,
            texts=asked.texts or (),
            vectors=asked.vectors or (),
            k=asked.top_k,
            threshold=asked.threshold,
            include=asked.include,
            exclude=asked.exclude,
            probabilities=asked.probabilities,
            explain=asked.explain,
        )
        found = await self._ask(question)
        return json_reply({"model": served.name, "version": served.version, "predictions": found})

    async def labels(
        self,
        query: Annotated[str, Query(max_length=1000, description="Part of a name or title.")] = "",
        limit: Annotated[int, Query(ge=1, le=_LABEL_LIMIT)] = 20,
        model: ModelName = None,
    ) -> Response:
        """Labels whose name or title contains a text, or the most frequent ones."""
        served = self.registry.get(model)
        found = await run_in_threadpool(served.labels.search, query, limit)
        return json_reply({"model": served.name, "labels": [_label(served, column) for column in found]})

    async def neighbors(
        self,
        label: str,
        k: Annotated[int, Query(ge=1, le=_LABEL_LIMIT)] = 10,
        min_count: Annotated[int, Query(ge=0, le=2**31, description="Leave out labels rarer in training.")] = 2,
        model: ModelName = None,
    ) -> Response:
        """The labels nearest to one in the embedding."""
        served = self.registry.get(model)
        column = served.find(label)
        found = await run_in_threadpool(served.labels.neighbors, column, k, min_count)
        near = [_label(served, other) | {"cosine": cosine} for other, cosine in found]
        return json_reply({"model": served.name, **_label(served, column), "neighbors": near})

    async def map(
        self, limit: Annotated[int, Query(ge=1, le=_MAP_LIMIT)] = 20_000, model: ModelName = None
    ) -> Response:
        """The labels in the plane; it is drawn up in the background after a model is loaded."""
        served = self.registry.get(model)
        return json_reply(await run_in_threadpool(self.layouts.document, served, limit))

    async def models(self) -> Response:
        """The models of this service."""
        return json_reply({"models": [self._summary(served) for served in self.registry]})

    async def model(self, name: str) -> Response:
        """How a model was made, and what was measured."""
        served = self.registry.get(name)
        classifier = served.classifier
        details = {
            "settings": classifier.settings_,
            "selection": classifier.selection_,
            "metrics": classifier.extra_.get("metrics", {}),
            "singular_values": [float(value) for value in classifier.singular_values_],
        }
        return json_reply(self._summary(served) | finite(details))

    async def reload(self, name: str) -> Response:
        """Load the model again from its folder and put the new version in place; only on a service with a token."""
        if not self.has_token:
            raise Refusal(
                403, "only a service that was started with a token reloads models; see rembrandt serve --help"
            )
        served = await self.registry.reload(name)
        self.layouts.begin(served)
        return json_reply(self._summary(served))

    async def project(self, name: str) -> Response:
        """A model as Annif asks about it."""
        served = self.registry.get(name)
        facts = {"project_id": served.name, "name": served.name, "is_trained": True}
        return json_reply(facts | {"modification_time": served.saved_at.isoformat()})

    async def suggest(self, name: str, request: Request) -> Response:
        """Labels of one text, asked for and answered as Annif's own services do."""
        expect(request, FORM)
        fields = form(await request.body())
        served = self.registry.get(name)
        question = Question(
            served,
            texts=(fields["text"],),
            k=whole(fields, "limit", 10),
            threshold=fraction(fields, "threshold"),
            probabilities=True,
        )
        found = (await self._ask(question))[0]
        return json_reply(
            {"results": [{"uri": one["label"], "label": one["name"], "score": one["score"]} for one in found]}
        )

    async def healthz(self) -> Response:
        """The process is alive."""
        return json_reply({"status": "alive"})

    async def readyz(self) -> Response:
        """Requests will be answered."""
        if not self.ready:
            raise Refusal(503, "the service is starting or shutting down", {"Retry-After": "1"})
        return json_reply({"status": "ready"})

    async def prometheus(self) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def page(self, request: Request, file: str = "index.html") -> Response:
        return self.assets.respond(file, request)

    async def _ask(self, question: Question) -> Answer:
        """Put a question into the queue, if it keeps to the limits."""
        limits = self.limits
        if question.rows > limits.texts:
            raise Refusal(413, f"{question.rows} texts in one request; at most {limits.texts} are taken, send several")
        longest = max(map(len, question.texts), default=0)
        if longest > limits.characters:
            raise Refusal(413, f"a text has {longest:,} characters; at most {limits.characters:,} are read, shorten it")
        if question.k > limits.answers:
            raise Refusal(413, f"{question.k} labels for each text; at most {limits.answers} are given")
        if question.explain:
            labels, characters = question.rows * question.k, question.k * sum(map(len, question.texts))
            if labels > limits.explained or characters > limits.explained_characters:
                raise Refusal(
                    413,
                    f"{labels} labels to explain, over {characters:,} characters; at most {limits.explained} and "
                    f"{limits.explained_characters:,} are taken: send fewer texts, or a smaller top_k",
                )
        return await self.batcher.submit(question)

    def _summary(self, served: Served) -> dict[str, Any]:
        return {
            "name": served.name,
            "version": served.version,
            "default": served.name == self.registry.default,
            "saved_at": served.saved_at.isoformat(),
            "n_labels": served.model.n_labels,
            "n_features": served.model.n_features,
            "n_train": served.model.n_train,
            "rank": int(served.model.embedding.shape[1]),
            "takes": "vectors" if served.text is None else "texts",
        }


_SUGGEST_FORM = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10},
        "threshold": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["text"],
}


def _body(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


def _label(served: Served, column: int) -> dict[str, Any]:
    labels = served.labels
    return {"label": labels.ids[column], "name": labels.names[column], "count": int(labels.counts[column])}
