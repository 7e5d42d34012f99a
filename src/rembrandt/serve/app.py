"""The service as an ASGI application."""

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from rembrandt import __version__, memory
from rembrandt.evaluation import finite
from rembrandt.model.description import about
from rembrandt.serve import schemas
from rembrandt.serve.batching import Batcher
from rembrandt.serve.bodies import FORM, JSON, Bodies
from rembrandt.serve.connection import client_of
from rembrandt.serve.corrections import CorrectionFile, accepted
from rembrandt.serve.errors import HANDLERS, ErrorResponse, RequestError
from rembrandt.serve.guard import LOOPBACK, Guard
from rembrandt.serve.limits import Limits
from rembrandt.serve.maps import MAX_LABELS, LabelMaps, Positions, compute_map
from rembrandt.serve.metrics import Metrics
from rembrandt.serve.predictions import Predictions, PredictJob, predict
from rembrandt.serve.reference import reference_page
from rembrandt.serve.registry import Registry, ServedModel

PAGE = Path(__file__).parent / "page"
PERCENT = Path(__file__).parents[1] / "explore/report/percent.js"  # the report has the same
_PREDICT = "/v1/predict"
_CORRECTIONS = "/v1/corrections"
_SUGGEST = "/v1/projects/{name}/suggest"
_MAX_LISTED_LABELS = 1000  # in one response
_N_READERS = 2  # threads
TRIM_SECONDS = 30.0  # between two times at which freed memory is given back
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

mimetypes.add_type("text/javascript", ".js")  # the registry of some Windows systems says text/plain

ModelName = Annotated[
    str | None, Query(description="Name of the model; the first model by default.")
]


def create_app(
    paths: Mapping[str, Path],
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    token: str | None = None,
    any_host: bool = False,
    compute_map: Callable[[ServedModel], Awaitable[Positions]] = compute_map,
    corrections: Path | None = None,
) -> Guard:
    """Return the service for the models in these folders.

    Parameters
    ----------
    paths : mapping of str to Path
        Model folders by name. The first model is the default.
    limits : Limits, optional
        Limits on requests.
    token : str, optional
        Token that requests must send.
    any_host : bool, default=False
        Accept any host name. By default, without a token, only the names of the loopback interface
        are accepted.
    compute_map : callable, optional
        Coroutine function that computes the map of a model.
    corrections : Path, optional
        File that corrections are added to; without it they are refused.

    Returns
    -------
    Guard
        The ASGI application.
    """
    service = Service(paths, limits, token is not None, compute_map, corrections)
    hosts = None if any_host or token is not None else LOOPBACK
    return Guard(
        service.routes(),
        limits,
        service.metrics,
        token=token,
        hosts=hosts,
        direct={("POST", _PREDICT): service.predict},
        on_stop=service.registry.close,
    )


class Service:
    """The routes and what they share."""

    def __init__(
        self,
        paths: Mapping[str, Path],
        limits: Limits,
        has_token: bool,
        compute_map: Any,
        corrections: Path | None = None,
    ) -> None:
        self.limits = limits
        self.has_token = has_token
        self.metrics = Metrics()
        self.corrections = None
        if corrections is not None:
            self.corrections = CorrectionFile(corrections, limits)
        self.registry = Registry(paths, self.metrics, limits.load)
        self.bodies = Bodies(limits)
        self.batcher = Batcher(predict, limits, self.metrics)
        self.maps = LabelMaps(compute_map)
        # Requests that are no predictions are computed here, so that many at once take little
        # memory and few cores. Threads of low priority would hold the interpreter's lock for long.
        self._readers = ThreadPoolExecutor(_N_READERS, thread_name_prefix="read")

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Compute the maps while the service runs; finish the accepted requests when it ends."""
        self._start_maps()
        trimming = asyncio.create_task(_trim_regularly())
        yield
        trimming.cancel()
        self.bodies.close()
        self._readers.shutdown(wait=False, cancel_futures=True)
        await self.batcher.close()
        await self.maps.close()
        if self.corrections is not None:
            await self.corrections.close()

    def _start_maps(self) -> None:
        """Begin to compute the map of every model.

        A loop in `lifespan` would hold the last model as long as the service runs.
        """
        for served in self.registry:
            self.maps.start(served)

    def routes(self) -> FastAPI:
        """Return the application with all routes."""
        app = FastAPI(
            title="Rembrandt",
            version=__version__,
            description=(
                "Extreme classification through label embeddings. "
                "Every error has a status and a message."
            ),
            docs_url=None,  # FastAPI's own pages load scripts from other hosts; ours does not
            redoc_url=None,
            lifespan=self.lifespan,
            exception_handlers=HANDLERS,
            responses={status: {"model": ErrorResponse} for status in (422, "default")},
        )
        self._add_api(app)
        self._add_page(app)
        if self.has_token:
            description = app.openapi()
            scheme = {"type": "http", "scheme": "bearer"}
            description["components"]["securitySchemes"] = {"token": scheme}
            description["security"] = [{"token": []}]
        return app

    def _add_api(self, app: FastAPI) -> None:
        """Add the routes that are in the OpenAPI description."""
        bodies = {
            _PREDICT: _body(JSON, schemas.PredictRequest),
            _CORRECTIONS: _body(JSON, schemas.CorrectionsRequest),
            _SUGGEST: _body(FORM, schemas.SuggestRequest),
        }
        routes: list[tuple[str, str, Any, Any]] = [
            ("POST", _PREDICT, self.predict, schemas.PredictResponse),
            ("POST", _CORRECTIONS, self.correct, schemas.CorrectionsResponse),
            ("GET", "/v1/labels", self.labels, schemas.LabelsResponse),
            ("GET", "/v1/labels/{label:path}/neighbors", self.neighbors, schemas.NeighborsResponse),
            ("GET", "/v1/map", self.map, schemas.MapResponse),
            ("GET", "/v1/models", self.models, schemas.ModelsResponse),
            ("GET", "/v1/models/{name}", self.model, schemas.ModelDetails),
            ("POST", "/v1/models/{name}/reload", self.reload, schemas.ModelSummary),
            ("GET", "/v1/projects/{name}", self.project, schemas.Project),
            ("POST", _SUGGEST, self.suggest, schemas.Suggestions),
            ("GET", "/healthz", self.health, dict[str, str]),
            ("GET", "/readyz", self.health, dict[str, str]),
        ]
        for method, path, handler, response in routes:
            app.add_api_route(
                path,
                handler,
                methods=[method],
                response_model=response,
                openapi_extra=bodies.get(path),
            )

    def _add_page(self, app: FastAPI) -> None:
        """Add the metrics and the files of the page."""
        app.add_api_route("/metrics", self.prometheus, include_in_schema=False)
        app.add_api_route("/", lambda: FileResponse(PAGE / "index.html"), include_in_schema=False)
        app.add_api_route(
            "/page/percent.js", lambda: FileResponse(PERCENT), include_in_schema=False
        )
        app.add_api_route(
            "/docs",
            lambda: HTMLResponse(reference_page(app.openapi())),
            include_in_schema=False,
        )
        app.mount("/page", StaticFiles(directory=PAGE))

    async def predict(self, request: Request) -> Response:
        """Predict the best labels of texts or vectors."""
        predict_request = await self.bodies.predict_request(request)
        served = self.registry.get(predict_request.model)
        job = PredictJob(served, predict_request, client_of(request))
        predictions = await self._submit(job)
        document = {"model": served.name, "version": served.version, "predictions": predictions}
        return self._answer(document)

    async def correct(self, request: Request) -> Response:
        """Keep the labels that people gave texts; they are on disk when the answer is sent."""
        if self.corrections is None:
            message = "this service keeps no corrections; start it with --corrections FILE"
            raise RequestError(403, message)
        sent = await self.bodies.corrections_request(request)
        served = self.registry.get(sent.model)
        checked = accepted(served, sent.corrections, self.limits)
        await self.corrections.add(checked.lines)
        document = {
            "model": served.name,
            "version": served.version,
            "accepted": len(checked.lines),
            "new_labels": checked.new_labels,
        }
        return self._answer(document)

    async def labels(
        self,
        query: Annotated[str, Query(max_length=1000, description="Part of a name or title.")] = "",
        limit: Annotated[int, Query(ge=1, le=_MAX_LISTED_LABELS)] = 20,
        model: ModelName = None,
    ) -> Response:
        """List labels whose name or title contains a text, or the most frequent labels."""
        return await self._read(self._labels, self.registry.get(model), query, limit)

    def _labels(self, served: ServedModel, query: str, limit: int) -> Response:
        columns = served.labels.search(query, limit)
        labels = [served.labels.document(column) for column in columns]
        return self._answer({"model": served.name, "labels": labels})

    async def neighbors(
        self,
        label: str,
        k: Annotated[int, Query(ge=1, le=_MAX_LISTED_LABELS)] = 10,
        min_count: Annotated[
            int, Query(ge=0, le=2**31, description="Minimum number of training examples.")
        ] = 2,
        model: ModelName = None,
    ) -> Response:
        """List the labels that are nearest to a label."""
        served = self.registry.get(model)
        return await self._read(self._neighbors, served, label, k, min_count)

    def _neighbors(self, served: ServedModel, label: str, k: int, min_count: int) -> Response:
        column = served.find(label)
        neighbors = []
        for other, cosine in served.labels.neighbors(column, k, min_count):
            neighbors.append(served.labels.document(other) | {"cosine": cosine})
        document = served.labels.document(column)
        return self._answer({"model": served.name, **document, "neighbors": neighbors})

    async def map(
        self, limit: Annotated[int, Query(ge=1, le=MAX_LABELS)] = 20_000, model: ModelName = None
    ) -> Response:
        """Return the labels in the plane; the map is computed in the background after a model is
        loaded.
        """
        return await self._read(self._map, self.registry.get(model), limit)

    def _map(self, served: ServedModel, limit: int) -> Response:
        return self._answer(self.maps.document(served, limit))

    async def models(self) -> Response:
        """List the models of this service."""
        summaries = [self._summary(served) for served in self.registry]
        keeps_corrections = self.corrections is not None
        return JSONResponse({"models": summaries, "corrections": keeps_corrections})

    async def model(self, name: str) -> Response:
        """Return the settings and measurements of a model."""
        return await self._read(self._model, self.registry.get(name))

    def _model(self, served: ServedModel) -> Response:
        classifier = served.classifier
        singular_values: Any = []
        if classifier.model_.has_label_vectors:
            singular_values = classifier.singular_values_
        details = {
            "about": about(classifier.describe()),
            "settings": classifier.settings_,
            "selection": classifier.selection_,
            "metrics": classifier.extra_.get("metrics", {}),
            "singular_values": singular_values,
        }
        return JSONResponse(self._summary(served) | finite(details))

    async def reload(self, name: str) -> Response:
        """Load a model again from its folder and replace the old version; only on a service with a
        token.
        """
        if not self.has_token:
            message = (
                "reloading needs a service that was started with a token; "
                "see rembrandt serve --help"
            )
            raise RequestError(403, message)
        served = await self.registry.reload(name)
        self.maps.start(served)
        return JSONResponse(self._summary(served))

    async def project(self, name: str) -> Response:
        """Describe a model in the format of Annif's API."""
        served = self.registry.get(name)
        project = {
            "project_id": served.name,
            "name": served.name,
            "is_trained": True,
            "modification_time": served.saved_at.isoformat(),
        }
        return JSONResponse(project)

    async def suggest(self, name: str, request: Request) -> Response:
        """Predict the labels of one text, with requests and responses in the format of Annif's
        API.
        """
        suggest_request = await self.bodies.suggest_request(request)
        served = self.registry.get(name)
        job = PredictJob(served, suggest_request.as_predict_request(), client_of(request))
        [predictions] = await self._submit(job)
        results = []
        for prediction in predictions:
            suggestion = {
                "uri": prediction["label"],
                "label": prediction["name"],
                "score": prediction["probability"],  # Annif's name for it
            }
            results.append(suggestion)
        return JSONResponse({"results": results})

    async def health(self) -> Response:
        """The models are loaded and the service accepts requests."""
        return JSONResponse({"status": "ready"})

    async def prometheus(self) -> Response:
        return Response(self.metrics.text(), media_type=_PROMETHEUS)

    async def _submit(self, job: PredictJob) -> Predictions:
        """Return the predictions of a request, which may be computed in several batches."""
        job.check(self.limits)
        smaller_jobs = job.parts(self.limits.batch)
        predictions: Predictions = []
        for result in await self.batcher.submit(*smaller_jobs):
            predictions += result
        return predictions

    async def _read(self, answer: Callable[..., Response], *arguments: Any) -> Response:
        """Return the response that a function makes in one of few threads."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.limits.timeout):
                return await loop.run_in_executor(self._readers, answer, *arguments)
        except TimeoutError:
            message = f"no result within {self.limits.timeout:g} s; try again later"
            raise RequestError(503, message, {"Retry-After": "1"}) from None

    def _answer(self, document: dict[str, Any]) -> Response:
        """Return a document as JSON, several times faster than JSONResponse; refuse a very large
        one.
        """
        body = to_json(document)
        if len(body) > self.limits.answer:
            message = (
                f"the answer would have {len(body):,} bytes; the limit is {self.limits.answer:,}; "
                "ask for fewer texts or labels"
            )
            raise RequestError(413, message)
        return Response(body, media_type=JSON)

    def _summary(self, served: ServedModel) -> dict[str, Any]:
        """Return the facts about a model that a list of models shows."""
        examples = served.classifier.extra_.get("examples")
        texts = []
        if isinstance(examples, list):
            texts = [text for text in examples if isinstance(text, str)]
        return {
            "name": served.name,
            "version": served.version,
            "default": served.name == self.registry.default,
            "saved_at": served.saved_at.isoformat(),
            "n_labels": len(served.labels.index),
            "n_named": served.labels.n_named,
            "one_label": served.classifier.model_.multiclass,
            "n_features": served.n_features,
            "n_train": served.classifier.n_train_,
            "rank": _rank(served),
            "parts": list(served.classifier.model_.parts),
            "takes": "texts" if served.takes_texts else "vectors",
            "examples": texts,
        }


async def _trim_regularly() -> None:
    """Return the memory of large requests and answers to the system."""
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(memory.trim)


def _rank(served: ServedModel) -> int | None:
    """Return the rank of the embedding of a model, where it has one."""
    model = served.classifier.model_
    if not model.has_label_vectors:
        return None
    return int(model.label_vectors[1].shape[0])


def _body(content_type: str, schema: Any) -> dict[str, Any]:
    """Describe a request body for OpenAPI."""
    content = {content_type: {"schema": schema.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}
